package spool

import (
	"slices"
	"sync"
	"sync/atomic"

	"leat/internal/stats"
	"leat/internal/tiffwrite"
)

// Chooser chooses the coding of an output by encoding samples with each candidate. The samples are
// rows of the first four tiles, in the file's order, that have at least a tenth of valid pixels and
// not only equal ones. It compares sizes only, so the choice is the same on every machine and
// with any number of workers. Tiles that are finished before the choice is made are encoded with
// the type's default, and again at the end if the choice differs.
type Chooser struct {
	l      *Layout
	chosen atomic.Pointer[tiffwrite.Coding] // nil until decided
	file   *File                            // nil in a worker process

	mu      sync.Mutex
	next    int              // all tiles below it have been sampled
	sampled map[int]struct{} // tiles from next on that have been sampled
	samples []sample         // the best so far, by index; at most trialTiles
}

// sample has the sizes of a tile by candidate.
type sample struct {
	index int
	sizes []int
}

// trial has what one worker needs to encode samples with each candidate.
type trial struct {
	encoders []*tiffwrite.Encoder // of the last sample's shape, by candidate; nil until they are used
	shape    tiffwrite.TileShape  // of the last sample
	pixels   []byte               // of the last sample
	out      []byte               // memory for an encoded sample, if spare is too small
	spare    []byte               // memory that the worker uses again after this sample
}

const (
	trialTiles = 4
	// A sample has at most sampleRows rows of a tile, half of them from the top and half from the
	// bottom. Twice as many from the top alone represent a tile less well:
	// docs/benchmarks/small-file.md has the measurements.
	sampleRows = 64
)

// NewChooser returns the chooser of an output's coding, which records the choice in the spool. In a
// worker process file is nil: the coordinator makes the choice, and Follow applies it.
func NewChooser(l *Layout, file *File) *Chooser {
	c := &Chooser{l: l, file: file, sampled: map[int]struct{}{}}
	if len(c.l.Candidates) == 1 {
		c.choose(0)
	}
	return c
}

// Choice returns the text of the chosen coding, and false before the choice.
func (c *Chooser) Choice() (string, bool) {
	chosen := c.chosen.Load()
	if chosen == nil {
		return "", false
	}
	return chosen.String(), true
}

// Follow applies a choice that the coordinator made. It ignores a text that is no candidate's.
func (c *Chooser) Follow(choice string) {
	if c.chosen.Load() != nil {
		return
	}
	for i, candidate := range c.l.Candidates {
		if candidate.String() == choice {
			c.choose(i)
		}
	}
}

// coding returns the coding to encode a tile with now, and whether it is final.
func (c *Chooser) coding() (_ tiffwrite.Coding, final bool) {
	if chosen := c.chosen.Load(); chosen != nil {
		return *chosen, true
	}
	return c.fallback(), false
}

// fallback returns the type's default.
func (c *Chooser) fallback() tiffwrite.Coding { return c.l.Candidates[len(c.l.Candidates)-1] }

// wants reports whether a tile may be a sample.
func (c *Chooser) wants(m stats.Moments) bool { return m.Valid*10 >= m.Total && m.Min != m.Max }

// needs reports whether a tile can still become a sample; if not, the caller need not decode it.
func (c *Chooser) needs(index int, m stats.Moments) bool {
	if !c.wants(m) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.samples) < trialTiles || index < c.samples[trialTiles-1].index
}

// offer passes a finished tile to the chooser; each index is offered once. A tile that may become a
// sample is encoded with each candidate by the calling worker, so that workers do it at the same
// time. The contents of tiles that needs rejects don't matter. t and memory are the worker's.
func (c *Chooser) offer(index int, tile []byte, m stats.Moments, t *trial, memory *tiffwrite.Memory) error {
	if c.file == nil || c.chosen.Load() != nil {
		return nil
	}
	var sizes []int
	if c.needs(index, m) {
		var err error
		if sizes, err = c.try(c.sampleOf(index, tile, t), t, memory); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen.Load() != nil {
		return nil
	}
	if sizes != nil {
		at, _ := slices.BinarySearchFunc(c.samples, index, func(s sample, i int) int { return s.index - i })
		if at < trialTiles {
			c.samples = slices.Insert(c.samples, at, sample{index, sizes})
			c.samples = c.samples[:min(len(c.samples), trialTiles)]
		}
	}
	c.sampled[index] = struct{}{}
	for {
		if _, ok := c.sampled[c.next]; !ok {
			break
		}
		delete(c.sampled, c.next)
		c.next++
	}
	if len(c.samples) == trialTiles && c.samples[trialTiles-1].index < c.next {
		return c.decide()
	}
	return nil
}

// sampleOf returns the sample of a tile, and sets t.shape. It has as little of the padding outside
// the raster as TIFF allows, and is valid until the next call.
func (c *Chooser) sampleOf(index int, tile []byte, t *trial) []byte {
	whole, inside := c.l.File.Shape(), c.l.windowOfTile(index)
	shape := whole
	shape.Width, shape.Height = upTo16(inside.Width), min(upTo16(inside.Height), sampleRows)
	if shape != t.shape {
		t.shape, t.encoders = shape, nil
	}
	row, stride := shape.Bytes()/shape.Height, whole.Bytes()/whole.Height
	half := shape.Height / 2
	skipped := max(inside.Height, shape.Height) - shape.Height // between the halves
	t.pixels = slices.Grow(t.pixels[:0], shape.Bytes())
	for y := range shape.Height {
		if y == half {
			tile = tile[skipped*stride:]
		}
		t.pixels = append(t.pixels, tile[y*stride:][:row]...)
	}
	return t.pixels
}

// upTo16 rounds the side of a tile up to one that TIFF allows.
func upTo16(n int) int { return (n + 15) / 16 * 16 }

// try returns the sizes of a sample of t.shape by candidate. A slower level takes most of the time
// of a trial. Where level 1 without a predictor keeps three quarters, and another predictor is
// smaller, the slower level gets the size of level 1: it would find nothing that repeats.
func (c *Chooser) try(sample []byte, t *trial, memory *tiffwrite.Memory) ([]int, error) {
	if t.encoders == nil {
		t.encoders = make([]*tiffwrite.Encoder, len(c.l.Candidates))
	}
	// A compressor may append a chunk twice before it keeps the shorter one.
	out, most := t.spare[:0], len(sample)+128<<10
	if cap(out) < most {
		t.out = slices.Grow(t.out, most)
		out = t.out
	}
	sizes := make([]int, len(c.l.Candidates))
	encode := func(i int) error {
		if t.encoders[i] == nil {
			t.encoders[i] = tiffwrite.NewEncoderIn(memory, t.shape, c.l.Candidates[i])
		}
		b, err := t.encoders[i].Encode(out, sample)
		sizes[i] = len(b)
		return err
	}
	least := len(sample)
	for i := range sizes {
		if !c.slower(i) {
			if err := encode(i); err != nil {
				return nil, err
			}
			least = min(least, sizes[i])
		}
	}
	for i := range sizes {
		switch {
		case !c.slower(i):
		case c.l.Candidates[i].Predictor == 1 && sizes[i-1] > least && sizes[i-1] > len(sample)/4*3:
			sizes[i] = sizes[i-1]
		default:
			if err := encode(i); err != nil {
				return nil, err
			}
		}
	}
	return sizes, nil
}

// slower reports whether a candidate has another level of deflate than the one before it, which has
// level 1 and the same predictor.
func (c *Chooser) slower(i int) bool {
	return i > 0 && c.l.Candidates[i].Level > 1 && c.l.Candidates[i-1] == level1(c.l.Candidates[i])
}

func level1(c tiffwrite.Coding) tiffwrite.Coding {
	c.Level = 1
	return c
}

// finish decides with the samples there are, or takes the default if there are none.
func (c *Chooser) finish() (tiffwrite.Coding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen.Load() == nil {
		if err := c.decide(); err != nil {
			return tiffwrite.Coding{}, err
		}
	}
	return *c.chosen.Load(), nil
}

// decide compares the candidates; the caller holds c.mu. Of equal sizes the later candidate wins,
// since the default is last.
func (c *Chooser) decide() error {
	best, least := len(c.l.Candidates)-1, -1
	if len(c.samples) > 0 {
		for i := range c.l.Candidates {
			size := 0
			for _, s := range c.samples {
				size += s.sizes[i]
			}
			if least < 0 || size <= least {
				best, least = i, size
			}
		}
	}
	c.samples, c.sampled = nil, nil
	if err := c.file.appendChoice(best); err != nil {
		return err
	}
	c.choose(best)
	return nil
}

// choose publishes the choice.
func (c *Chooser) choose(candidate int) { c.chosen.Store(&c.l.Candidates[candidate]) }
