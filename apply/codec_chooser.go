package apply

import (
	"slices"
	"sync"
	"sync/atomic"

	"leat/raster/geotiff"
	"leat/raster/stats"
)

// codecChooser chooses the coding of an output by encoding sample tiles with each candidate. The
// samples are the first four tiles in canonical order of which at least a tenth of the pixels are
// valid and not all equal. It compares sizes only, so the choice is the same on every machine and
// with any number of workers. Tiles that are finished before the choice is made are encoded with
// the type's default, and again at the end if the choice differs.
type codecChooser struct {
	shape      geotiff.TileShape
	candidates []geotiff.Coding
	chosen     atomic.Pointer[geotiff.Coding] // nil until decided
	// decided is called with the index of the chosen candidate before any tile is encoded with it.
	decided func(candidate int) error
	// readOnly is set in a worker process: the coordinator makes the choice there.
	readOnly bool

	mu      sync.Mutex
	next    int              // all tiles below it have been sampled
	sampled map[int]struct{} // tiles from next on that have been sampled
	samples []sample         // the best so far, by index; at most trialTiles
}

type sample struct {
	index int
	tile  []byte
}

const (
	trialTiles = 4
	// trialRows of each sample are encoded. Predictors differ from the first rows on, and whole
	// tiles would take four times as long.
	trialRows = 128
)

func newCodecChooser(shape geotiff.TileShape, candidates []geotiff.Coding) *codecChooser {
	t := &codecChooser{candidates: candidates, sampled: map[int]struct{}{}}
	t.shape = shape
	t.shape.Height = min(shape.Height, trialRows)
	if len(candidates) == 1 {
		t.chosen.Store(&candidates[0])
	}
	return t
}

// coding returns the coding to encode a tile with now, and whether it is final.
func (t *codecChooser) coding() (c geotiff.Coding, final bool) {
	if c := t.chosen.Load(); c != nil {
		return *c, true
	}
	return t.fallback(), false
}

// fallback returns the type's default.
func (t *codecChooser) fallback() geotiff.Coding { return t.candidates[len(t.candidates)-1] }

// wants reports whether a tile may be a sample.
func (t *codecChooser) wants(m stats.Moments) bool { return m.Valid*10 >= m.Total && m.Min != m.Max }

// needs reports whether a tile can still become a sample; if not, the caller need not decode it.
func (t *codecChooser) needs(index int, m stats.Moments) bool {
	if !t.wants(m) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.samples) < trialTiles || index < t.samples[trialTiles-1].index
}

// offer passes a finished tile to the chooser; each index is offered once. It copies the tile if it
// becomes a sample; the contents of tiles that needs rejects don't matter.
func (t *codecChooser) offer(index int, tile []byte, m stats.Moments) error {
	if t.readOnly || t.chosen.Load() != nil {
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
	t.sampled[index] = struct{}{}
	for {
		if _, ok := t.sampled[t.next]; !ok {
			break
		}
		delete(t.sampled, t.next)
		t.next++
	}
	if len(t.samples) == trialTiles && t.samples[trialTiles-1].index < t.next {
		return t.decide()
	}
	return nil
}

// finish decides with the samples there are, or takes the default if there are none.
func (t *codecChooser) finish() (geotiff.Coding, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.chosen.Load() == nil {
		if err := t.decide(); err != nil {
			return geotiff.Coding{}, err
		}
	}
	return *t.chosen.Load(), nil
}

// decide compares the candidates; the caller holds t.mu. Of equal sizes the later candidate wins,
// since the default is last.
func (t *codecChooser) decide() error {
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
	t.samples, t.sampled = nil, nil
	if t.decided != nil {
		if err := t.decided(best); err != nil {
			return err
		}
	}
	t.choose(best)
	return nil
}

// choose publishes the choice.
func (t *codecChooser) choose(candidate int) { t.chosen.Store(&t.candidates[candidate]) }
