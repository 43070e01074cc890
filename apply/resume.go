package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"leat/block"
	"leat/internal/fault"
	"leat/ndarray"
	"leat/raster/geotiff"
)

// resume restores what an earlier run left in the spools, which are locked: its blocks with all they gave, its choice of a coding, and its
// overview tiles.
func (r *run) resume(ctx context.Context) error {
	if !r.continues {
		return nil
	}
	defer r.timings.Start("resuming", "main", -1).Stop()
	left := make([]*leftover, len(r.outs))
	for i, o := range r.outs {
		if err := o.sameHeader(); err != nil {
			return err
		}
		var err error
		if left[i], err = o.survey(ctx); err != nil {
			return o.readingBack(err)
		}
	}
	// A block is done when every output has it. The run has none of them before all are restored: should that fail, the spools hold what they held, and
	// nobody knows how much that is.
	before, done, pixels := make([]bool, r.plan.Blocks.Count()), 0, int64(0)
	extras := make([]extra, len(r.outs))
	for n := range before {
		before[n] = !slices.ContainsFunc(left, func(l *leftover) bool { return l.blocks[n] == 0 })
		if !before[n] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		b := r.plan.Blocks.At(n)
		for i, o := range r.outs {
			x, err := left[i].restore(b)
			if err != nil {
				return o.readingBack(err)
			}
			extras[i] = x
		}
		if r.exprs != nil {
			r.exprs.add(extras)
		}
		done++
		pixels += b.Window.Pixels()
	}
	for _, l := range left {
		if err := l.restoreTiles(); err != nil {
			return l.o.readingBack(err)
		}
	}
	r.before, r.done, r.resumed, r.pixels = before, done, done, pixels
	if r.job.Merge != nil && len(left) > 0 {
		r.merge.before = left[0].values
	}
	r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("%d of %s were taken from the unfinished output", r.resumed, count(len(r.before), "block")))
	if r.job.Progress != nil {
		r.job.Progress(Progress{Done: r.done, Total: len(r.before), Pixels: r.pixels, Stage: "resuming"})
	}
	return nil
}

// readingBack words an error of going on from an unfinished output.
func (o *output) readingBack(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = fmt.Errorf("reading %s: %w", o.spool.path, pe.Err)
	}
	return fmt.Errorf("output %s: %w", o.name, err)
}

// earlierType is the type, the number of bands and nodata of an output as far as they are known, and else as its header has them.
func (o *output) earlierType() (t ndarray.DType, bands int, nodata *ndarray.Scalar, err error) {
	t, bands, nodata = o.typ, o.bands, o.nodata
	if !t.Valid() {
		if t, err = ndarray.ParseDType(o.earlier.Type); err != nil {
			return t, 0, nil, errTornSpool
		}
	}
	if bands == 0 {
		bands = o.earlier.Bands
	}
	if bands < 1 || bands > 1<<16 {
		return t, 0, nil, errTornSpool
	}
	if nodata == nil && o.spec.Nodata != "" && o.spec.Nodata != "none" && o.run.exprs == nil {
		v, err := parseNodata(o.spec.Nodata, t)
		if err != nil {
			return t, 0, nil, err
		}
		nodata = &v
	}
	return t, bands, nodata, nil
}

// leftover is what the spool of an output holds of an earlier run.
type leftover struct {
	o       *output
	e       *encoding
	blocks  []int64  // by number: where the head of the block's record lies; 0 where there is none
	spoken  []extent // by number, where values are merged: those that the block emitted, as they lie in the file
	tiles   []found  // overview tiles, and tiles encoded again
	whole   []place  // overview tiles that nothing is missing of
	known   bool     // in what coding final tiles are
	scan    *scanner
	scratch []byte
}

// survey finds the records of the output's spool, and makes it ready for more.
func (o *output) survey(ctx context.Context) (*leftover, error) {
	st, err := o.spool.f.Stat()
	if err != nil {
		return nil, err
	}
	t, bands, _, err := o.earlierType()
	if err != nil {
		return nil, err
	}
	o.spool.nonce = o.earlier.nonce
	if err := o.begin(0, t, bands); err != nil {
		return nil, err
	}
	plan := o.run.plan.Blocks
	l := &leftover{o: o, e: newEncoding(o, "main"), blocks: make([]int64, plan.Count()), scan: newScanner(o.spool.f, st.Size(), o.earlier.nonce)}
	if o.run.job.Merge != nil && o == o.run.outs[0] {
		l.spoken = make([]extent, plan.Count())
	}
	chosen := map[int]bool{} // blocks with tiles in the coding that was chosen
	choice := -1
	end, err := l.scan.records(ctx, int64(len(o.earlier.bytes)), func(f found, tables []byte) error {
		switch f.kind {
		case recordBlock:
			// A block that lacked an output was done again: the last record counts. What does not fit was made by something else than leat.
			if f.number >= uint64(len(l.blocks)) {
				return nil
			}
			n := int(f.number)
			if r, err := o.parseTables(plan.At(n), tables, f.tables+f.data); err == nil && int64(len(r.meta)) == f.tables {
				l.blocks[n] = f.at
				delete(chosen, n)
				if slices.ContainsFunc(r.tiles, func(p pending) bool { return p.final }) {
					chosen[n] = true
				}
			}
		case recordOverview, recordTile:
			l.tiles = append(l.tiles, f)
		case recordCoding:
			if f.number < uint64(len(o.trial.candidates)) {
				choice = int(f.number)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if choice >= 0 {
		o.trial.choose(choice)
	}
	if _, l.known = o.trial.coding(); !l.known {
		for n := range chosen {
			l.blocks[n] = 0
		}
	}
	// What follows was torn.
	if err := o.spool.f.Truncate(end); err != nil {
		return nil, spoolError(o.spec.label(), o.spool.path, err)
	}
	o.spool.end = end
	fault.Point("apply.surveyed")
	return l, nil
}

// restore enters a block's record as if the block had just been computed, and returns what it gave besides pixels.
func (l *leftover) restore(b block.Block) (extra, error) {
	o := l.o
	f, r, err := l.record(b)
	if err != nil {
		return extra{}, err
	}
	if err := o.judgeTiles(l.e, r, func(p pending) ([]byte, error) {
		if cap(l.scratch) < p.length {
			l.scratch = make([]byte, p.length)
		}
		data := l.scratch[:p.length]
		_, err := o.spool.f.ReadAt(data, f.dataAt()+int64(p.at))
		return data, err
	}); err != nil {
		return extra{}, err
	}
	whole, err := o.enter(b, r, f.dataAt())
	if err != nil {
		return extra{}, err
	}
	l.whole = append(l.whole, whole...)
	if l.spoken != nil {
		l.spoken[b.Number] = extent{f.at + recordHead + r.values.at, r.values.length}
	}
	x := r.extra
	x.values = nil // they stand in memory that is used again, and are read when their turn comes
	return x, nil
}

// record reads the tables of a block's record, which are valid until the next call.
func (l *leftover) record(b block.Block) (*found, *record, error) {
	f, ok, err := l.scan.head(l.blocks[b.Number])
	if err == nil && !ok {
		err = errRecord
	}
	if err != nil {
		return nil, nil, err
	}
	if int64(cap(l.scan.meta)) < f.tables {
		l.scan.meta = make([]byte, f.tables)
	}
	meta := l.scan.meta[:f.tables]
	if _, err := l.o.spool.f.ReadAt(meta, f.at+recordHead); err != nil {
		return nil, nil, err
	}
	r, err := l.o.parseTables(b, meta, f.tables+f.data)
	return &f, r, err
}

// values are what a block of an earlier run emitted, for the merger.
func (l *leftover) values(n int) ([]any, bool, error) {
	r := l.o.run
	if n >= len(r.before) || !r.before[n] {
		return nil, false, nil
	}
	text := make([]byte, l.spoken[n].length)
	if _, err := l.o.spool.f.ReadAt(text, l.spoken[n].at); err != nil {
		return nil, false, l.o.readingBack(err)
	}
	t := tables{b: text}
	var list [][]byte
	for range t.u32() {
		v := t.take(t.u32())
		if t.torn {
			return nil, false, l.o.readingBack(errRecord)
		}
		list = append(list, v)
	}
	values, err := r.job.decodeValues(list)
	if err != nil {
		return nil, false, fmt.Errorf("block %d: %w", n, err)
	}
	return values, true, nil
}

// restoreTiles enters the overview tiles that an earlier run encoded and the tiles that it encoded again, and encodes the overview tiles of which
// it had all pixels.
func (l *leftover) restoreTiles() error {
	o := l.o
	missing := map[place]bool{}
	for _, p := range l.whole {
		missing[p] = true
	}
	for i := range l.tiles {
		f := &l.tiles[i]
		lev, index := int(f.number>>48), int(f.number&(1<<48-1))
		if lev >= len(o.levels) || index >= len(o.levels[lev].tiles) {
			continue
		}
		planes := 1
		if f.kind == recordOverview {
			planes = o.file.Planes()
		}
		across, down := o.file.TilesAcross(lev)
		entries, ok := l.entries(f, planes, index, across*down)
		if !ok {
			continue
		}
		p := place{lev, index % across, index / across % down}
		switch f.kind {
		case recordOverview:
			// Tiles of levels that are made of others are made again. One that is older than a block's pixels was made of the pixels before them.
			if _, whole := missing[p]; !whole || index >= across*down || o.newest(p) > f.at {
				continue
			}
			missing[p] = false
		case recordTile:
			if old := o.levels[lev].tiles[index].ref; old.Bytes == 0 || old.Offset > f.at {
				continue
			}
		}
		for _, t := range entries {
			o.levels[lev].tiles[t.index] = tile{geotiff.TileRef{Offset: f.dataAt() + int64(t.at), Bytes: int64(t.length)}, t.final}
		}
	}
	for _, p := range l.whole {
		if missing[p] {
			if err := l.e.overviewTile(p.level, p.col, p.row); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries reads the tables of a record of tiles, one for each plane, of which the first has an index and each other the one before it and step.
func (l *leftover) entries(f *found, planes, index, step int) ([]pending, bool) {
	const entryBytes = 12
	if f.tables != int64(planes*entryBytes) {
		return nil, false
	}
	b := make([]byte, f.tables)
	if _, err := l.o.spool.f.ReadAt(b, f.at+recordHead); err != nil {
		return nil, false
	}
	t, at := tables{b: b}, 0
	var list []pending
	for plane := range planes {
		p := pending{index: t.u32(), at: at, length: t.u32()}
		p.final = t.u32() == 1
		if p.index != index+plane*step || p.length < geotiff.FrameBytes || p.final && !l.known {
			return nil, false
		}
		at += p.length
		list = append(list, p)
	}
	return list, int64(at) == f.data
}

// newest is where the last of the sections lies of which an overview tile is made.
func (o *output) newest(p place) int64 {
	l, w := o.levels[p.level], o.tileWindow(p.level, p.col, p.row)
	at := int64(0)
	for r := w.Row / l.blocks.WindowHeight; r*l.blocks.WindowHeight < w.Row+w.Height; r++ {
		for c := w.Col / l.blocks.WindowWidth; c*l.blocks.WindowWidth < w.Col+w.Width; c++ {
			at = max(at, l.sections[r*l.blocks.Across()+c])
		}
	}
	return at
}
