package spool

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"leat/block"
	"leat/internal/stats"
	"leat/internal/tiffwrite"
	"leat/timing"
)

// Spool collects the records of an output: it keeps where their tiles are in the file, adds up
// their statistics, and makes overview tiles.
type Spool struct {
	l       *Layout
	file    *File
	chooser *Chooser
	timings *timing.Recorder

	mu     sync.Mutex
	levels []level // as those of the layout
	// sections are the offsets in the file of each block's overview pixels; nil if there are none.
	sections []int64
	// moments by band of full resolution, and histograms by band.
	moments []*tileMoments
	totals  []*stats.Totals
}

// level is full resolution or one overview.
type level struct {
	tiles []tile
	// waiting is how many blocks each tile of an overview still waits for whose pixels are in
	// records. Spool.mu guards it.
	waiting []int32
}

// tile is the place of an encoded tile in the file, in 12 bytes: a run may have millions.
type tile struct{ low, high, bytes uint32 }

// finalTile is the bit of tile.high of a tile that is encoded in the chosen coding.
const finalTile = 1 << 31

// newTile returns a tile. final is false if it was encoded before the coding was chosen.
func newTile(offset int64, length int, final bool) tile {
	t := tile{uint32(offset), uint32(offset >> 32), uint32(length)}
	if final {
		t.high |= finalTile
	}
	return t
}

func (t tile) final() bool { return t.high&finalTile != 0 }

func (t tile) ref() tiffwrite.TileRef {
	return tiffwrite.TileRef{Offset: int64(t.high&^finalTile)<<32 | int64(t.low), Bytes: int64(t.bytes)}
}

// New returns the spool of an output without any record. The file has a header.
func New(file *File, l *Layout, c *Chooser, timings *timing.Recorder) *Spool {
	s := &Spool{l: l, file: file, chooser: c, timings: timings}
	for i, v := range l.levels {
		across, down := l.File.TileGrid(i)
		lev := level{tiles: make([]tile, across*down*l.File.Planes())}
		if v.pixels() {
			if s.sections == nil {
				s.sections = make([]int64, l.Blocks.Count())
			}
			lev.waiting = make([]int32, across*down)
			for t := range lev.waiting {
				lev.waiting[t] = int32(CountTouching(v.blocks, l.tileWindow(i, t%across, t/across)))
			}
		}
		s.levels = append(s.levels, lev)
	}
	across, down := l.File.TileGrid(0)
	for range l.File.Bands {
		s.moments = append(s.moments, newTileMoments(across*down))
		s.totals = append(s.totals, stats.NewTotals(l.File.Type))
	}
	return s
}

// File returns the file that contains the records.
func (s *Spool) File() *File { return s.file }

// NewEncoder returns an encoder of the spool's output. Its timings have this lane.
func (s *Spool) NewEncoder(lane string) *Encoder { return NewEncoder(s.l, s.chooser, s.timings, lane) }

// Add spools the record of block b and makes the overview tiles that it completes. It is safe for
// concurrent use with one encoder per call.
func (s *Spool) Add(e *Encoder, b block.Block, r *Record) error {
	spooling := s.timings.Start("spooling", e.lane, b.Number)
	offset, err := s.file.append(KindBlock, uint64(b.Number), r.Meta, r.Data)
	spooling.Stop()
	if err != nil {
		return err
	}
	complete, err := s.commit(b, r, offset)
	if err != nil || len(complete) == 0 {
		return err
	}
	defer s.timings.Start("overviews", e.lane, b.Number).Stop()
	for _, p := range complete {
		if err := s.buildOverviewTile(e, p); err != nil {
			return err
		}
	}
	return nil
}

// AddRemote is Add for a record that another process encoded: it also offers the record's tiles to
// the chooser.
func (s *Spool) AddRemote(e *Encoder, b block.Block, r *Record) error {
	err := s.sample(e, r, func(t recordTile) ([]byte, error) { return r.Data[t.offset : t.offset+t.length], nil })
	if err != nil {
		return err
	}
	return s.Add(e, b, r)
}

// commit enters a record, whose data is at an offset of the file, in the tables. It returns the
// overview tiles that are now complete.
func (s *Spool) commit(b block.Block, r *Record, offset int64) ([]levelTile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := r.histograms
	for i := 0; len(rest) > 0; i++ {
		var err error
		if rest, err = s.totals[i].Add(rest); err != nil {
			return nil, fmt.Errorf("%w of block %d, output %s: %w", ErrRecord, b.Number, s.l.Output, err)
		}
	}
	for _, t := range r.tiles {
		s.levels[t.level].tiles[t.index] = newTile(offset+int64(t.offset), t.length, t.final)
		tilesPerPlane := s.moments[0].tiles
		for i, m := range t.moments {
			s.moments[t.index/tilesPerPlane+i].set(t.index%tilesPerPlane, m)
		}
	}
	return s.markSections(b, r.sections, offset), nil
}

// sample offers the tiles of a record, which encoded reads, to the chooser.
func (s *Spool) sample(e *Encoder, r *Record, encoded func(t recordTile) ([]byte, error)) error {
	for _, t := range r.tiles {
		if _, decided := s.chooser.coding(); decided {
			return nil
		}
		if t.final || t.level > 0 {
			continue // it was made after a choice that a later record contains, or is not a sample
		}
		if s.chooser.needs(t.index, t.moments[0]) {
			data, err := encoded(t)
			if err != nil {
				return err
			}
			rows := upTo16(s.l.windowOfTile(t.index).Height)
			if err := tiffwrite.DecodeRows(s.l.File.Shape(), s.chooser.fallback(), data, e.pixels, rows); err != nil {
				return fmt.Errorf("%w, output %s: %w", ErrRecord, s.l.Output, err)
			}
		}
		if err := s.chooser.offer(t.index, e.pixels, t.moments[0], &e.trial, &e.shared); err != nil {
			return err
		}
	}
	return nil
}

// Finish makes all tiles that are still missing, in the chosen coding, which it returns, with this
// number of workers. All blocks have been added.
func (s *Spool) Finish(ctx context.Context, workers int) (tiffwrite.Coding, error) {
	coding, err := s.chooser.finish()
	if err != nil {
		return coding, fmt.Errorf("output %s: %w", s.l.Output, err)
	}
	if err := s.buildCoarseOverviews(s.NewEncoder("main")); err != nil {
		return coding, err
	}
	return coding, s.encodeAgain(ctx, coding, workers)
}

// encodeAgain replaces the tiles that were encoded with the default coding before another was
// chosen.
func (s *Spool) encodeAgain(ctx context.Context, coding tiffwrite.Coding, workers int) error {
	before := s.chooser.fallback()
	if before == coding {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(min(workers, runtime.GOMAXPROCS(0)))
	pool := sync.Pool{New: func() any { return s.NewEncoder("main") }}
	for lev := range s.levels {
		for i := range s.levels[lev].tiles {
			if s.levels[lev].tiles[i].final() {
				continue
			}
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				e := pool.Get().(*Encoder)
				defer pool.Put(e)
				return s.encodeTileAgain(e, lev, i, before, coding)
			})
		}
	}
	return g.Wait()
}

func (s *Spool) encodeTileAgain(e *Encoder, lev, i int, before, coding tiffwrite.Coding) error {
	t := &s.levels[lev].tiles[i]
	ref := t.ref()
	stored := make([]byte, ref.Bytes)
	if _, err := s.file.ReadAt(stored, ref.Offset); err != nil {
		return fmt.Errorf("%s: reading a tile back: %w", s.file.path, err)
	}
	if err := tiffwrite.DecodeTile(s.l.File.Shape(), before, stored, e.pixels); err != nil {
		return fmt.Errorf("%s: %w", s.file.path, err)
	}
	data, err := e.encoder(coding).EncodeOver(e.rec.Data[:0], e.pixels)
	if err != nil {
		return err
	}
	e.rec.Data = data
	e.rec.Meta = appendTileEntry(e.rec.Meta[:0], i, len(data), true)
	at, err := s.file.append(KindTile, tileNumber(lev, i), e.rec.Meta, data)
	if err != nil {
		return err
	}
	*t = newTile(at, len(data), true)
	return nil
}

// TileRef returns the place in the file of a tile of a level. Level 0 is full resolution.
func (s *Spool) TileRef(level, index int) tiffwrite.TileRef {
	return s.levels[level].tiles[index].ref()
}

// Tiles returns the number of tiles of all levels.
func (s *Spool) Tiles() (n int) {
	for _, l := range s.levels {
		n += len(l.tiles)
	}
	return n
}

// Moments returns the moments of all pixels of a band, counted from 0.
func (s *Spool) Moments(band int) stats.Moments { return s.moments[band].total() }

// Totals returns the histogram of all pixels of a band, counted from 0.
func (s *Spool) Totals(band int) *stats.Totals { return s.totals[band] }
