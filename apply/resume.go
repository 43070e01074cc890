package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"leat/block"
	"leat/internal/fault"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster/geotiff"
)

// resume restores the contents of the locked spools: blocks with all their results, the chosen
// coding, and overview tiles.
func (r *run) resume(ctx context.Context) error {
	if !r.continues {
		return nil
	}
	defer r.timings.Start("resuming", "main", -1).Stop()
	left := make([]*resumeState, len(r.outs))
	for i, o := range r.outs {
		if err := o.sameHeader(); err != nil {
			return err
		}
		var err error
		if left[i], err = o.scanSpool(ctx); err != nil {
			return o.readingBack(err)
		}
	}
	// A block is done if every output has it. Set the run's fields only after all blocks are
	// restored: if that fails, the spools keep their blocks, and their number is unknown.
	before, done, pixels := make([]bool, r.plan.Blocks.Count()), 0, int64(0)
	extras := make([]extra, len(r.outs))
	for n := range before {
		before[n] = !slices.ContainsFunc(left, func(l *resumeState) bool { return l.blocks[n] == 0 })
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
	r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("%d of %s were taken from the unfinished output", r.resumed,
		units.Count(len(r.before), "block")))
	if r.job.Progress != nil {
		r.job.Progress(Progress{Done: r.done, Total: len(r.before), Pixels: r.pixels, Stage: "resuming"})
	}
	return nil
}

// readingBack adds the output and the file to an error of restoring.
func (o *output) readingBack(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = fmt.Errorf("reading %s: %w", o.spool.path, pe.Err)
	}
	return fmt.Errorf("output %s: %w", o.name, err)
}

// earlierType returns the type, number of bands and nodata of an output, from its header where they
// are not known yet.
func (o *output) earlierType() (t ndarray.DType, bands int, nodata *ndarray.Scalar, err error) {
	t, bands, nodata = o.typ, o.bands, o.nodata
	if !t.Valid() {
		if t, err = ndarray.ParseDType(o.resume.Type); err != nil {
			return t, 0, nil, errTornSpool
		}
	}
	if bands == 0 {
		bands = o.resume.Bands
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

// resumeState is the contents of an output's spool from an earlier run.
type resumeState struct {
	o             *output
	e             *encoding
	blocks        []int64  // by number: offset of the head of the block's record; 0 if there is none
	emitted       []extent // by number, if values are merged: the block's emitted values in the file
	tiles         []found  // overview tiles, and tiles encoded again
	completeTiles []place  // overview tiles of which all pixels are known
	known         bool     // whether the coding of final tiles is known
	scan          *scanner
	scratch       []byte
}

// scanSpool finds the records of the output's spool, and prepares the spool for more.
func (o *output) scanSpool(ctx context.Context) (*resumeState, error) {
	st, err := o.spool.f.Stat()
	if err != nil {
		return nil, err
	}
	t, bands, _, err := o.earlierType()
	if err != nil {
		return nil, err
	}
	o.spool.nonce = o.resume.nonce
	if err := o.begin(0, t, bands); err != nil {
		return nil, err
	}
	plan := o.run.plan.Blocks
	l := &resumeState{o: o, e: newEncoding(o, "main"), blocks: make([]int64, plan.Count()),
		scan: newScanner(o.spool.f, st.Size(), o.resume.nonce)}
	if o.run.job.Merge != nil && o == o.run.outs[0] {
		l.emitted = make([]extent, plan.Count())
	}
	chosen := map[int]bool{} // blocks with tiles in the chosen coding
	choice := -1
	end, err := l.scan.records(ctx, int64(len(o.resume.bytes)), func(f found, tables []byte) error {
		switch f.kind {
		case recordBlock:
			// A block that lacked an output was computed again: the last record counts. A record
			// that does not fit was not written by leat.
			if f.number >= uint64(len(l.blocks)) {
				return nil
			}
			n := int(f.number)
			if r, err := o.parseTables(plan.At(n), tables,
				f.tables+f.data); err == nil && int64(len(r.meta)) == f.tables {
				l.blocks[n] = f.at
				delete(chosen, n)
				if slices.ContainsFunc(r.tiles, func(p pending) bool { return p.final }) {
					chosen[n] = true
				}
			}
		case recordOverview, recordTile:
			l.tiles = append(l.tiles, f)
		case recordCoding:
			if f.number < uint64(len(o.chooser.candidates)) {
				choice = int(f.number)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if choice >= 0 {
		o.chooser.choose(choice)
	}
	if _, l.known = o.chooser.coding(); !l.known {
		for n := range chosen {
			l.blocks[n] = 0
		}
	}
	// The rest was torn.
	if err := o.spool.f.Truncate(end); err != nil {
		return nil, spoolError(o.spec.label(), o.spool.path, err)
	}
	o.spool.end = end
	fault.Point("apply.scanned")
	return l, nil
}

// restore enters a block's record as if the block had just been computed, and returns its results
// other than pixels.
func (l *resumeState) restore(b block.Block) (extra, error) {
	o := l.o
	f, r, err := l.record(b)
	if err != nil {
		return extra{}, err
	}
	if err := o.sampleEncoded(l.e, r, func(p pending) ([]byte, error) {
		if cap(l.scratch) < p.length {
			l.scratch = make([]byte, p.length)
		}
		data := l.scratch[:p.length]
		_, err := o.spool.f.ReadAt(data, f.dataAt()+int64(p.at))
		return data, err
	}); err != nil {
		return extra{}, err
	}
	whole, err := o.commitRecord(b, r, f.dataAt())
	if err != nil {
		return extra{}, err
	}
	l.completeTiles = append(l.completeTiles, whole...)
	if l.emitted != nil {
		l.emitted[b.Number] = extent{f.at + recordHead + r.values.at, r.values.length}
	}
	x := r.extra
	x.values = nil // their memory is reused; they are read again when they are merged
	return x, nil
}

// record reads the tables of a block's record, which are valid until the next call.
func (l *resumeState) record(b block.Block) (*found, *record, error) {
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

// values returns the values that a block of an earlier run emitted, for the merger.
func (l *resumeState) values(n int) ([]any, bool, error) {
	r := l.o.run
	if n >= len(r.before) || !r.before[n] {
		return nil, false, nil
	}
	text := make([]byte, l.emitted[n].length)
	if _, err := l.o.spool.f.ReadAt(text, l.emitted[n].at); err != nil {
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

// restoreTiles enters the overview tiles of an earlier run and the tiles that it encoded again, and
// encodes the overview tiles of which it had all pixels.
func (l *resumeState) restoreTiles() error {
	o := l.o
	missing := map[place]bool{}
	for _, p := range l.completeTiles {
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
			// Tiles of levels that are made from other levels are made again. A tile older than one
			// of its blocks' pixels was made from earlier ones.
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
			o.levels[lev].tiles[t.index] = tile{geotiff.TileRef{Offset: f.dataAt() + int64(t.at),
				Bytes: int64(t.length)}, t.final}
		}
	}
	for _, p := range l.completeTiles {
		if missing[p] {
			if err := l.e.overviewTile(p.level, p.col, p.row); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries reads the tables of a record of tiles, one for each plane. The first must have this
// index, and each other one that of the tile before plus step.
func (l *resumeState) entries(f *found, planes, index, step int) ([]pending, bool) {
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

// newest returns the offset of the last of the sections that an overview tile is made from.
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
