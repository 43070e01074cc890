package apply

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"leat/block"
	"leat/expr"
	"leat/internal/units"
	"leat/raster/geotiff"
	"leat/raster/stats"
)

// extra is the result of a block for an output other than pixels.
type extra struct {
	counts expr.Counts // of the output's expression
	// col and row are the first pixel of the grid that collided with nodata, if
	// counts.NodataCollision is not 0.
	col, row int
	// values are the emitted values, encoded. They are in the record of the output that is first by
	// name.
	values [][]byte
}

func (x *extra) appendTo(m []byte) []byte {
	le, c := binary.LittleEndian, &x.counts
	for _, v := range [8]int64{c.Pixels, c.Invalid, c.NaN, c.Inf, c.Saturated, c.NodataCollision, int64(x.col),
		int64(x.row)} {
		m = le.AppendUint64(m, uint64(v))
	}
	m = le.AppendUint32(m, uint32(len(x.values)))
	for _, v := range x.values {
		m = append(le.AppendUint32(m, uint32(len(v))), v...)
	}
	return m
}

// errRecord is returned for a record that does not fit its block: torn, or not written by leat.
var errRecord = errors.New("a damaged record")

// tables reads the numbers of a record. After the first missing one all are 0.
type tables struct {
	b    []byte
	torn bool
}

func (t *tables) take(n int) []byte {
	if t.torn || n < 0 || n > len(t.b) {
		t.torn = true
		return nil
	}
	v := t.b[:n]
	t.b = t.b[n:]
	return v
}

func (t *tables) u32() int {
	if v := t.take(4); v != nil {
		return int(binary.LittleEndian.Uint32(v))
	}
	return 0
}

func (t *tables) i64() int64 {
	if v := t.take(8); v != nil {
		return int64(binary.LittleEndian.Uint64(v))
	}
	return 0
}

func (t *tables) float() float64 { return math.Float64frombits(uint64(t.i64())) }

// parseRecord reads the payload of a record, whose memory the result shares, and checks it against
// block b of the output: the tiles that cover the block, in order, and its pixels of the overview
// levels. It does not decode tiles.
func (o *output) parseRecord(b block.Block, payload []byte) (*record, error) {
	r, err := o.parseTables(b, payload, int64(len(payload)))
	if err == nil {
		r.data = payload[len(r.meta):]
	}
	return r, err
}

// parseTables is like parseRecord without the data: head is the beginning of a payload of total
// bytes and contains at least the tables.
func (o *output) parseTables(b block.Block, head []byte, total int64) (*record, error) {
	bad := func(format string, args ...any) (*record, error) {
		return nil, fmt.Errorf("%w of block %d, output %s: %w", errRecord, b.Number, o.name,
			fmt.Errorf(format, args...))
	}
	t := tables{b: head}
	r := &record{}
	nTiles, nSections := t.u32(), t.u32()
	want := o.tilesOf(b)
	if nTiles != len(want) {
		return bad("it has %s instead of %d", units.Count(nTiles, "tile"), len(want))
	}
	at := 0
	for i := range nTiles {
		p := pending{index: t.u32(), at: at, length: t.u32()}
		final := t.u32()
		n := t.u32()
		if p.index != want[i] || final > 1 || p.length < geotiff.FrameBytes || n != 0 && n != 1 &&
			n != o.bandsPerTile() {
			return bad("tile %d does not match the block", i)
		}
		p.final = final == 1
		for range n {
			m := stats.Moments{Total: t.i64(), Valid: t.i64(), NaN: t.i64(), Infinite: t.i64(), Min: t.float(),
				Max: t.float(), Mean: t.float(), M2: t.float()}
			if w := o.windowOfTile(p.index); m.Total != w.Pixels() || m.Valid < 0 || m.NaN < 0 || m.Infinite < 0 ||
				m.Valid > m.Total || m.NaN > m.Total || m.Infinite > m.Total {
				return bad("the statistics of tile %d are not of its %d pixels", i, w.Pixels())
			}
			p.moments = append(p.moments, m)
		}
		if wanted := o.bandsPerTile(); len(p.moments) != wanted &&
			(len(p.moments) != 0 || !p.final || !o.spec.NoStatistics) {
			return bad("tile %d lacks statistics", i)
		}
		at += p.length
		r.tiles = append(r.tiles, p)
	}
	for i, l := range o.levels {
		if l.sections == nil {
			continue
		}
		w := l.blocks.At(b.Number).Window
		s := section{t.u32(), at, t.u32()}
		if s.level != i || int64(s.length) != w.Pixels()*int64(o.bands*o.typ.Size()) {
			return bad("its pixels of overview level %d do not match the block", i)
		}
		at += s.length
		r.sections = append(r.sections, s)
	}
	if nSections != len(r.sections) {
		return bad("it has pixels of %s instead of %d", units.Count(nSections, "overview level"), len(r.sections))
	}
	c := &r.extra.counts
	*c = expr.Counts{Pixels: t.i64(), Invalid: t.i64(), NaN: t.i64(), Inf: t.i64(), Saturated: t.i64(),
		NodataCollision: t.i64(), FirstCollision: -1}
	r.extra.col, r.extra.row = int(t.i64()), int(t.i64())
	r.values.at = int64(len(head) - len(t.b))
	for range t.u32() {
		v := t.take(t.u32())
		if t.torn {
			break
		}
		r.extra.values = append(r.extra.values, v)
	}
	begin := len(head) - len(t.b)
	r.values.length = int64(begin) - r.values.at
	end := total - int64(at)
	if t.torn || end < int64(begin) || end > int64(len(head)) {
		return bad("it is too short")
	}
	r.histograms, r.meta = head[begin:end], head[:end]
	rest := r.histograms
	if o.histogram() {
		for range o.bands {
			var err error
			if rest, err = o.totals[0].Check(rest); err != nil {
				return bad("%w", err)
			}
		}
	}
	if len(rest) > 0 {
		return bad("%s too many", units.Count(len(rest), "byte"))
	}
	return r, nil
}

// tilesOf returns the indices of the tiles of full resolution that a block covers, in the order in
// which they are encoded.
func (o *output) tilesOf(b block.Block) []int {
	var list []int
	w := b.Window
	for plane := range o.file.Planes() {
		for row := w.Row / o.tileH; row*o.tileH < w.Row+w.Height; row++ {
			for col := w.Col / o.tileW; col*o.tileW < w.Col+w.Width; col++ {
				list = append(list, o.file.TileIndex(0, plane, col, row))
			}
		}
	}
	return list
}

// windowOfTile returns the part of full resolution that a tile covers.
func (o *output) windowOfTile(index int) block.Window {
	across, down := o.file.TilesAcross(0)
	index %= across * down
	return o.tileWindow(0, index%across, index/across)
}

// bandsPerTile returns how many bands a tile holds.
func (o *output) bandsPerTile() int { return o.bands / o.file.Planes() }

// histogram reports whether blocks have histograms.
func (o *output) histogram() bool {
	return !o.spec.NoHistogram && !o.spec.NoStatistics && !o.typ.IsComplex()
}

// spoolRecord spools the result of block b for the output, enters it in the tables, and encodes the
// overview tiles that it completes. It is safe for concurrent use with one encoding per call.
func (o *output) spoolRecord(e *encoding, b block.Block, r *record) error {
	spooling := o.run.timings.Start("spooling", e.lane, b.Number)
	at, err := o.spool.append(recordBlock, uint64(b.Number), r.meta, r.data)
	spooling.Stop()
	if err != nil {
		return spoolError(o.spec.label(), o.spool.path, err)
	}
	complete, err := o.commitRecord(b, r, at)
	if err != nil || len(complete) == 0 {
		return err
	}
	defer o.run.timings.Start("overviews", e.lane, b.Number).Stop()
	for _, p := range complete {
		if err := e.overviewTile(p.level, p.col, p.row); err != nil {
			return err
		}
	}
	return nil
}

// commitRecord enters a record, whose data is at an offset of the spool, in the tables. It returns
// the overview tiles that are now complete.
func (o *output) commitRecord(b block.Block, r *record, at int64) ([]place, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := r.histograms
	for i := 0; len(rest) > 0; i++ {
		var err error
		if rest, err = o.totals[i].Add(rest); err != nil {
			return nil, fmt.Errorf("%w of block %d, output %s: %w", errRecord, b.Number, o.name, err)
		}
	}
	for _, p := range r.tiles {
		o.levels[0].tiles[p.index] = tile{geotiff.TileRef{Offset: at + int64(p.at), Bytes: int64(p.length)}, p.final}
		tilesPerPlane := len(o.moments[0])
		for i, m := range p.moments {
			o.moments[p.index/tilesPerPlane+i][p.index%tilesPerPlane] = m
		}
	}
	return o.markSections(b, r.sections, at), nil
}

// sampleTiles offers the tiles of a record from another process to the codec chooser.
func (o *output) sampleTiles(e *encoding, r *record) error {
	return o.sampleEncoded(e, r, func(p pending) ([]byte, error) { return r.data[p.at : p.at+p.length], nil })
}

// sampleEncoded is like sampleTiles for a record whose encoded tiles the function encoded reads.
func (o *output) sampleEncoded(e *encoding, r *record, encoded func(p pending) ([]byte, error)) error {
	for _, p := range r.tiles {
		if _, decided := o.chooser.coding(); decided {
			return nil
		}
		if p.final {
			continue // it was made after a choice that a later record contains
		}
		if o.chooser.needs(p.index, p.moments[0]) {
			data, err := encoded(p)
			if err != nil {
				return err
			}
			if err := geotiff.DecodeTile(o.file.Shape(), o.chooser.fallback(), data, e.pixels); err != nil {
				return fmt.Errorf("%w, output %s: %w", errRecord, o.name, err)
			}
		}
		if err := o.chooser.offer(p.index, e.pixels, p.moments[0]); err != nil {
			return err
		}
	}
	return nil
}
