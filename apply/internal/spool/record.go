package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"leat/block"
	"leat/internal/expr"
	"leat/internal/stats"
	"leat/internal/tiffwrite"
	"leat/internal/units"
)

// Record is the result of a block for one output: the contents of its record in the spool, and the
// record's tables in decoded form.
type Record struct {
	Data  []byte // encoded tiles of full resolution and overviews, then overview pixels
	Meta  []byte // written before Data: tables of what Data holds
	Extra Extra

	tiles      []recordTile
	sections   []section
	histograms []byte // of all bands, empty if there are none; part of Meta
	values     extent // the emitted values and their number; part of Meta
}

// extent is a range of bytes.
type extent struct{ offset, length int64 }

// recordTile is an encoded tile in a record's data.
type recordTile struct {
	level, index   int
	offset, length int
	final          bool            // whether its coding is the chosen one
	moments        []stats.Moments // of the bands in the tile
}

// section is a block's pixels of one overview level in data.
type section struct{ level, offset, length int }

// Extra is the result of a block for an output other than pixels.
type Extra struct {
	Counts expr.Counts // of the output's expression
	// Col and Row are the first pixel of the grid that collided with nodata, if
	// Counts.NodataCollision is not 0.
	Col, Row int
	// Values are the emitted values, encoded. They are in the record of the output that is first by
	// name.
	Values [][]byte
}

func (x *Extra) appendTo(m []byte) []byte {
	le, c := binary.LittleEndian, &x.Counts
	for _, v := range [8]int64{c.Pixels, c.Invalid, c.NaN, c.Inf, c.Saturated, c.NodataCollision, int64(x.Col),
		int64(x.Row)} {
		m = le.AppendUint64(m, uint64(v))
	}
	m = le.AppendUint32(m, uint32(len(x.Values)))
	for _, v := range x.Values {
		m = append(le.AppendUint32(m, uint32(len(v))), v...)
	}
	return m
}

// ErrRecord is returned for a record that does not fit its block: torn, or not written by leat.
var ErrRecord = errors.New("a damaged record")

// Decoder reads the numbers of a record. After the first missing one all are 0.
type Decoder struct {
	Rest []byte // not read yet
	Torn bool   // a number or some bytes were missing
}

// Take returns the next n bytes, nil if they are missing.
func (t *Decoder) Take(n int) []byte {
	if t.Torn || n < 0 || n > len(t.Rest) {
		t.Torn = true
		return nil
	}
	v := t.Rest[:n]
	t.Rest = t.Rest[n:]
	return v
}

// Uint32 returns the next number of 4 bytes.
func (t *Decoder) Uint32() int {
	if v := t.Take(4); v != nil {
		return int(binary.LittleEndian.Uint32(v))
	}
	return 0
}

func (t *Decoder) int64() int64 {
	if v := t.Take(8); v != nil {
		return int64(binary.LittleEndian.Uint64(v))
	}
	return 0
}

func (t *Decoder) float64() float64 { return math.Float64frombits(uint64(t.int64())) }

// byteStrings returns the next byte strings, which their number precedes.
func (t *Decoder) byteStrings() (list [][]byte) {
	for range t.Uint32() {
		v := t.Take(t.Uint32())
		if t.Torn {
			break
		}
		list = append(list, v)
	}
	return list
}

// Parse reads the payload of a record, whose memory the result shares, and checks it against block
// b: the tiles that cover the block, in order, and its pixels of the overview levels. It does not
// decode tiles.
func (l *Layout) Parse(b block.Block, payload []byte) (*Record, error) {
	r, err := l.parseMeta(b, payload, int64(len(payload)))
	if err == nil {
		r.Data = payload[len(r.Meta):]
	}
	return r, err
}

// ParseParts is Parse for a record whose tables and data are in separate slices.
func (l *Layout) ParseParts(b block.Block, meta, data []byte) (*Record, error) {
	r, err := l.parseMeta(b, meta, int64(len(meta))+int64(len(data)))
	if err != nil {
		return nil, err
	}
	if len(r.Meta) != len(meta) {
		return nil, fmt.Errorf("%w of block %d, output %s: %d bytes of tables, expected %d", ErrRecord, b.Number, l.Output,
			len(meta), len(r.Meta))
	}
	r.Data = data
	return r, nil
}

// parseMeta is like Parse without the data: head is the beginning of a payload of total bytes and
// contains at least the tables.
func (l *Layout) parseMeta(b block.Block, head []byte, total int64) (*Record, error) {
	p := recordParser{l: l}
	return p.parse(b, head, total)
}

// recordParser parses one record after the other in the same memory.
type recordParser struct {
	l       *Layout
	rec     Record
	tiles   []encodedTile
	moments []stats.Moments
}

// parse is [Layout.parseMeta] whose result is valid until the next call.
func (p *recordParser) parse(b block.Block, head []byte, total int64) (*Record, error) {
	l, r := p.l, &p.rec
	bad := func(format string, args ...any) (*Record, error) {
		return nil, fmt.Errorf("%w of block %d, output %s: %w", ErrRecord, b.Number, l.Output,
			fmt.Errorf(format, args...))
	}
	t := Decoder{Rest: head}
	*r = Record{tiles: r.tiles[:0], sections: r.sections[:0]}
	nTiles, nSections := t.Uint32(), t.Uint32()
	p.tiles, p.moments = l.appendTiles(p.tiles[:0], b), p.moments[:0]
	want := p.tiles
	if nTiles != len(want) {
		return bad("it has %s instead of %d", units.Count(nTiles, "tile"), len(want))
	}
	at := 0
	for i := range nTiles {
		tile := recordTile{level: want[i].level, index: t.Uint32(), offset: at, length: t.Uint32()}
		final := t.Uint32()
		n := t.Uint32()
		if tile.index != want[i].index || final > 1 || tile.length < tiffwrite.FrameBytes || n != 0 && n != 1 &&
			n != l.bandsPerTile() || tile.level > 0 && n != 0 {
			return bad("tile %d does not match the block", i)
		}
		tile.final = final == 1
		from := len(p.moments)
		for range n {
			m := stats.Moments{Total: t.int64(), Valid: t.int64(), NaN: t.int64(), Infinite: t.int64(),
				Min: t.float64(), Max: t.float64(), Mean: t.float64(), M2: t.float64()}
			if w := l.windowOfTile(tile.index); m.Total != w.Pixels() || m.Valid < 0 || m.NaN < 0 || m.Infinite < 0 ||
				m.Valid > m.Total || m.NaN > m.Total || m.Infinite > m.Total {
				return bad("the statistics of tile %d are not of its %d pixels", i, w.Pixels())
			}
			p.moments = append(p.moments, m)
		}
		tile.moments = p.moments[from:len(p.moments):len(p.moments)]
		if wanted := l.bandsPerTile(); tile.level == 0 && len(tile.moments) != wanted &&
			(len(tile.moments) != 0 || !tile.final || l.Statistics) {
			return bad("tile %d lacks statistics", i)
		}
		at += tile.length
		r.tiles = append(r.tiles, tile)
	}
	for i := range l.levels {
		if !l.levels[i].pixels() {
			continue
		}
		s := section{t.Uint32(), at, t.Uint32()}
		if s.level != i || int64(s.length) != l.sectionBytes(i, b.Number) {
			return bad("its pixels of overview level %d do not match the block", i)
		}
		at += s.length
		r.sections = append(r.sections, s)
	}
	if nSections != len(r.sections) {
		return bad("it has pixels of %s instead of %d", units.Count(nSections, "overview level"), len(r.sections))
	}
	c := &r.Extra.Counts
	*c = expr.Counts{Pixels: t.int64(), Invalid: t.int64(), NaN: t.int64(), Inf: t.int64(), Saturated: t.int64(),
		NodataCollision: t.int64(), FirstCollision: -1}
	r.Extra.Col, r.Extra.Row = int(t.int64()), int(t.int64())
	r.values.offset = int64(len(head) - len(t.Rest))
	r.Extra.Values = t.byteStrings()
	begin := len(head) - len(t.Rest)
	r.values.length = int64(begin) - r.values.offset
	end := total - int64(at)
	if t.Torn || end < int64(begin) || end > int64(len(head)) {
		return bad("it is too short")
	}
	r.histograms, r.Meta = head[begin:end], head[:end]
	rest := r.histograms
	if l.Histogram {
		for range l.File.Bands {
			var err error
			if rest, err = l.totals.CheckEncoded(rest); err != nil {
				return bad("%w", err)
			}
		}
	}
	if len(rest) > 0 {
		return bad("%s too many", units.Count(len(rest), "byte"))
	}
	return r, nil
}
