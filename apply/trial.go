package apply

import (
	"slices"
	"sync"
	"sync/atomic"

	"leat/raster/geotiff"
	"leat/raster/stats"
)

// trial chooses the coding of an output by encoding sample tiles with each candidate: the first four tiles in
// canonical order with at least a tenth of valid pixels that are not all the same. Only sizes are compared, so
// the choice is the same on every machine and with any number of workers. Tiles that are finished before the choice is
// made are encoded with the type's default, and again at the end should the choice be another.
type trial struct {
	shape      geotiff.TileShape
	candidates []geotiff.Coding
	chosen     atomic.Pointer[geotiff.Coding] // nil until decided
	// decided is called with the place among candidates of what is chosen, before anything is encoded with it.
	decided func(candidate int) error
	// told: this is a worker elsewhere, which is told the choice and makes none.
	told bool

	mu      sync.Mutex
	next    int              // tiles below are judged
	judged  map[int]struct{} // tiles from next on that are judged
	samples []sample         // the best so far, by index; at most trialTiles
}

type sample struct {
	index int
	tile  []byte
}

const (
	trialTiles = 4
	// trialRows of each sample are encoded: predictors differ from the first rows on, and a whole tile
	// would cost each run four times as much.
	trialRows = 128
)

func newTrial(shape geotiff.TileShape, candidates []geotiff.Coding) *trial {
	t := &trial{candidates: candidates, judged: map[int]struct{}{}}
	t.shape = shape
	t.shape.Height = min(shape.Height, trialRows)
	if len(candidates) == 1 {
		t.chosen.Store(&candidates[0])
	}
	return t
}

// coding is what a tile is encoded with now, and whether that is final.
func (t *trial) coding() (c geotiff.Coding, final bool) {
	if c := t.chosen.Load(); c != nil {
		return *c, true
	}
	return t.fallback(), false
}

// fallback is the type's default.
func (t *trial) fallback() geotiff.Coding { return t.candidates[len(t.candidates)-1] }

// wants reports whether a tile may be a sample.
func (t *trial) wants(m stats.Moments) bool { return m.Valid*10 >= m.Total && m.Min != m.Max }

// needs reports whether the pixels of a tile can still matter: they need not be decoded otherwise.
func (t *trial) needs(index int, m stats.Moments) bool {
	if !t.wants(m) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.samples) < trialTiles || index < t.samples[trialTiles-1].index
}

// offer shows the trial a finished tile, of which each index is offered once. It copies what it needs; a tile that it does not need may
// be anything.
func (t *trial) offer(index int, tile []byte, m stats.Moments) error {
	if t.told || t.chosen.Load() != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.chosen.Load() != nil {
		return nil
	}
	if t.wants(m) {
		at, _ := slices.BinarySearchFunc(t.samples, index, func(s sample, i int) int { return s.index - i })
		if at < trialTiles {
			t.samples = slices.Insert(t.samples, at, sample{index, slices.Clone(tile[:t.shape.Bytes()])})
			t.samples = t.samples[:min(len(t.samples), trialTiles)]
		}
	}
	t.judged[index] = struct{}{}
	for {
		if _, ok := t.judged[t.next]; !ok {
			break
		}
		delete(t.judged, t.next)
		t.next++
	}
	if len(t.samples) == trialTiles && t.samples[trialTiles-1].index < t.next {
		return t.decide()
	}
	return nil
}

// finish decides with the samples there are; without one it takes the default.
func (t *trial) finish() (geotiff.Coding, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.chosen.Load() == nil {
		if err := t.decide(); err != nil {
			return geotiff.Coding{}, err
		}
	}
	return *t.chosen.Load(), nil
}

// decide compares the candidates; t.mu is held. Of equal sizes the later candidate wins: the default is last.
func (t *trial) decide() error {
	best, least := len(t.candidates)-1, -1
	if len(t.samples) > 0 {
		var buf []byte
		for i, c := range t.candidates {
			enc, size := geotiff.NewEncoder(t.shape, c), 0
			for _, s := range t.samples {
				b, err := enc.Encode(buf[:0], s.tile)
				if err != nil {
					return err
				}
				buf = b
				size += len(b)
			}
			if least < 0 || size <= least {
				best, least = i, size
			}
		}
	}
	t.samples, t.judged = nil, nil
	if t.decided != nil {
		if err := t.decided(best); err != nil {
			return err
		}
	}
	t.choose(best)
	return nil
}

// choose makes the choice known.
func (t *trial) choose(candidate int) { t.chosen.Store(&t.candidates[candidate]) }
