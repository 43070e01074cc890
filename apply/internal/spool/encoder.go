package spool

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"time"

	"leat/block"
	"leat/internal/driver"
	"leat/internal/overview"
	"leat/internal/stats"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/timing"
)

// Encoder turns blocks of one output into records, for one worker. It does not use the spool and
// may run in another process.
type Encoder struct {
	l          *Layout
	chooser    *Chooser
	timings    *timing.Recorder
	lane       string // in timings
	encoders   map[tiffwrite.Coding]*tiffwrite.Encoder
	shared     tiffwrite.Memory   // of encoders and of those of trial
	trial      trial              // empty after the choice
	collectors []*stats.Collector // by band
	pixels     []byte             // one tile before encoding
	mask       []byte             // of the part of the tile inside the raster, if the output has an alpha band
	sections   []byte             // overview pixels of one block
	level      []byte             // pixels of one overview tile, of all bands
	read       []byte             // of a section, from the spool
	rec        Record             // of the last encoded block
	memory     []byte             // for the data of records; if nil, records allocate
}

// NewEncoder returns an encoder with the codings that the chooser selects. Its timings have this
// lane.
func NewEncoder(l *Layout, c *Chooser, timings *timing.Recorder, lane string) *Encoder {
	e := &Encoder{l: l, chooser: c, timings: timings, lane: lane, encoders: map[tiffwrite.Coding]*tiffwrite.Encoder{},
		pixels: ndarray.New(ndarray.Uint8, l.File.Shape().Bytes()).Raw()}
	for range l.File.Bands {
		e.collectors = append(e.collectors, stats.NewCollector(l.File.Type, l.File.Nodata, l.Histogram))
	}
	return e
}

// SetMemory makes the encoder write the data of each record to the beginning of memory. It
// allocates memory for data that does not fit.
func (e *Encoder) SetMemory(memory []byte) { e.memory = memory }

func (e *Encoder) encoder(c tiffwrite.Coding) *tiffwrite.Encoder {
	enc := e.encoders[c]
	if enc == nil {
		enc = tiffwrite.NewEncoderIn(&e.shared, e.l.File.Shape(), c)
		e.encoders[c] = enc
	}
	return enc
}

// Encode encodes an output array of shape (bands, rows, columns), whose rows have no gaps between
// pixels; nil for an output without pixels. The record is valid until the next call.
func (e *Encoder) Encode(b block.Block, a *ndarray.Array, x Extra) (*Record, error) {
	l, r := e.l, &e.rec
	*r = Record{Data: r.Data[:0], Meta: r.Meta[:0], tiles: r.tiles[:0], sections: r.sections[:0], Extra: x}
	if l.NoPixels {
		e.describe(r)
		return r, nil
	}
	start := time.Now()
	levels, err := e.reduce(b, a) // first, while the pixels are in the cache
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	inOverviews := begin.Sub(start)
	var inStats time.Duration
	w := b.Window
	if e.memory != nil {
		r.Data = e.memory[:0]
	}
	if cap(r.Data) == 0 { // pages that are never written take no memory, and growing copies all others
		r.Data = make([]byte, 0, l.dataBytes(b))
	}
	for plane := range l.File.Planes() {
		for at := range l.tilesIn(w) {
			part := l.tileWindow(0, at.col, at.row)
			inBlock := part.Shift(-w.Col, -w.Row)
			p := recordTile{index: l.File.TileIndex(0, plane, at.col, at.row), offset: len(r.Data)}
			coding, final := e.chooser.coding()
			if final {
				e.trial = trial{}
			}
			rows, stride := e.rowsInPlace(a, plane, inBlock)
			inPlace := rows != nil && final && coding.Predictor > 1
			if !inPlace {
				e.gather(a, plane, inBlock, 0)
				rows, stride = e.pixels, len(e.pixels)/l.File.TileHeight
			}
			if !final || l.Statistics {
				e.readAlpha(a, inBlock)
				p.moments = make([]stats.Moments, l.bandsPerTile())
			}
			addRows := func(y, n int) {
				if p.moments == nil {
					return
				}
				start := time.Now()
				e.addMoments(p.moments, plane, rows[y*stride:], stride, y, part.Width, n)
				inStats += time.Since(start)
			}
			var err error
			if inPlace {
				r.Data, err = e.encoder(coding).EncodeRows(r.Data, rows, stride, e.pixels, addRows)
			} else {
				addRows(0, part.Height)
				if !final {
					start := time.Now()
					e.trial.spare = r.Data[len(r.Data):] // for the tile itself afterwards
					if err := e.chooser.offer(p.index, e.pixels, p.moments[0], &e.trial, &e.shared); err != nil {
						return nil, err
					}
					e.trial.spare = nil
					inStats += time.Since(start)
					coding, final = e.chooser.coding()
				}
				r.Data, err = e.encoder(coding).EncodeOver(r.Data, e.pixels)
			}
			if err != nil {
				return nil, err
			}
			p.length, p.final = len(r.Data)-p.offset, final
			r.tiles = append(r.tiles, p)
		}
	}
	e.timings.Record("statistics", e.lane, b.Number, begin, inStats)
	e.timings.Record("encoding", e.lane, b.Number, begin.Add(inStats), time.Since(begin)-inStats)
	if len(levels) > 0 {
		begin := time.Now()
		if err := e.appendLevels(b, levels); err != nil {
			return nil, err
		}
		e.timings.Record("overviews", e.lane, b.Number, begin.Add(-inOverviews), time.Since(begin)+inOverviews)
	}
	e.describe(r)
	return r, nil
}

// rowsInPlace returns the rows of a tile, stride bytes apart, in the array whose part the tile
// covers. They are nil if the tile extends beyond the raster or has pixels of several bands, if
// rows overlap or are in reverse order, or if the pixels are not aligned.
func (e *Encoder) rowsInPlace(a *ndarray.Array, plane int, part block.Window) (rows []byte, stride int) {
	f := &e.l.File
	b, size := a.At(plane), f.Type.Size()
	stride = b.Strides[0]
	if part.Width < f.TileWidth || part.Height < f.TileHeight || e.l.bandsPerTile() > 1 ||
		stride < part.Width*size || stride%size != 0 {
		return nil, 0
	}
	from := b.Offset + part.Row*stride + part.Col*size
	rows = b.Data[from:][:(part.Height-1)*stride+part.Width*size]
	if reflect.ValueOf(rows).Pointer()%uintptr(min(size, 8)) != 0 {
		return nil, 0
	}
	return rows, stride
}

// gather copies the part of the array that a tile of a level covers into e.pixels, and pads it.
func (e *Encoder) gather(a *ndarray.Array, plane int, part block.Window, level int) {
	l := e.l
	size := l.File.Type.Size()
	step := size // from pixel to pixel in the tile
	bands := []*ndarray.Array{a.At(plane)}
	if l.File.PixelInterleave {
		bands = bands[:0]
		for i := range l.File.Bands {
			bands = append(bands, a.At(i))
		}
		step *= len(bands)
	}
	rowBytes := l.File.TileWidth * step
	for i, b := range bands {
		for y := range part.Height {
			from := b.Offset + (part.Row+y)*b.Strides[0] + part.Col*size
			src := b.Data[from : from+part.Width*size]
			row := e.pixels[y*rowBytes : (y+1)*rowBytes]
			if len(bands) == 1 {
				copy(row, src)
			} else {
				interleave(row[i*size:], src, size, step)
			}
		}
	}
	l.pad(e.pixels, part, step, level)
}

// pad fills the rest of a tile of a level, in whose upper left corner the pixels of part are, step
// bytes each. Beyond the raster's right edge it repeats the last pixel of each row. Rows below the
// raster repeat the last one; those of overviews, which have more of them, repeat its last pixel
// alone, which takes less time to encode.
func (l *Layout) pad(tile []byte, part block.Window, step, level int) {
	rowBytes := l.File.TileWidth * step
	if part.Width < l.File.TileWidth {
		for y := range part.Height {
			repeat(tile[y*rowBytes : (y+1)*rowBytes][(part.Width-1)*step:], step)
		}
	}
	if part.Height == l.File.TileHeight {
		return
	}
	last, below := tile[(part.Height-1)*rowBytes:part.Height*rowBytes], tile[part.Height*rowBytes:]
	if level == 0 {
		copy(below, last)
		repeat(below, rowBytes)
	} else {
		copy(below, last[rowBytes-step:])
		repeat(below, step)
	}
}

// repeat fills b with copies of its first n bytes.
func repeat(b []byte, n int) {
	for ; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// interleave writes elements of size bytes at intervals of step bytes.
func interleave(dst, src []byte, size, step int) {
	for i, k := 0, 0; i < len(src); i, k = i+size, k+step {
		copy(dst[k:k+size], src[i:i+size])
	}
}

// readAlpha fills e.mask from the output's alpha band, if there is one, in the part of the array
// that a tile covers.
func (e *Encoder) readAlpha(a *ndarray.Array, part block.Window) {
	if e.l.Alpha == 0 {
		return
	}
	b, size := a.At(e.l.Alpha-1), e.l.File.Type.Size()
	e.mask = slices.Grow(e.mask[:0], part.Width*part.Height)[:part.Width*part.Height]
	for y := range part.Height {
		from := b.Offset + (part.Row+y)*b.Strides[0] + part.Col*size
		setMask(e.mask[y*part.Width:(y+1)*part.Width], b.Data[from:from+part.Width*size])
	}
}

// maskFor returns the mask of a band, counted from 0; nil for the alpha band itself.
func (e *Encoder) maskFor(band int) []byte {
	if e.l.Alpha == 0 || band == e.l.Alpha-1 {
		return nil
	}
	return e.mask
}

// addMoments adds rows of a tile, from row y on, to the moments of the bands in it. rows begins
// with the first of them; they begin stride bytes apart.
func (e *Encoder) addMoments(m []stats.Moments, plane int, rows []byte, stride, y, width, height int) {
	f := &e.l.File
	size := f.Type.Size()
	for i := range m {
		band := plane + i // a tile has one band, or all of them
		mask := e.maskFor(band)
		if mask != nil {
			mask = mask[y*width:]
		}
		e.collectors[band].Add(&m[i], rows[i*size:], mask, width, height, stride/size, len(m))
	}
}

// reduce returns the block's pixels of all bands by level, of the levels that are made block by
// block. They are valid until the next call.
func (e *Encoder) reduce(b block.Block, a *ndarray.Array) ([][]byte, error) {
	l := e.l
	if len(l.levels) == 1 {
		return nil, nil
	}
	type source struct {
		factor int
		plane  overview.Plane
	}
	e.sections = aligned(e.sections, l.overviewBytes(b.Number))
	rest := e.sections
	sections := make([][]byte, len(l.levels))
	masks := make([][]byte, len(l.levels)) // by level, of the output's alpha band
	whole := block.Window{Width: b.Window.Width, Height: b.Window.Height}
	if l.Alpha > 0 && !l.Method.Picks() {
		e.readAlpha(a, whole)
		masks[0] = slices.Clone(e.mask)
	}
	for _, band := range l.alphaFirst() {
		p := a.At(band)
		full := source{1, overview.Plane{Type: l.File.Type, Width: b.Window.Width, Height: b.Window.Height,
			Stride: p.Strides[0] / l.File.Type.Size(), Data: p.Data[p.Offset:]}}
		from := full
		for i, v := range l.levels {
			if !v.fused {
				continue
			}
			if l.Method == overview.Center { // the level before lacks the pixel at the centre
				from = full
			}
			f := v.factor / from.factor
			if from.plane.Mask = masks[i-1]; band == l.Alpha-1 {
				from.plane.Mask = nil
			}
			w, h := overview.Reduced(from.plane.Width, f), overview.Reduced(from.plane.Height, f)
			if n := l.sectionBytes(i, b.Number); sections[i] == nil {
				sections[i], rest = rest[:n], rest[n:]
			}
			n := w * h * l.File.Type.Size()
			dst := sections[i][band*n : (band+1)*n]
			if err := overview.Reduce(l.Method, dst, from.plane, f, l.File.Nodata); err != nil {
				return nil, err
			}
			from = source{v.factor, overview.Plane{Type: l.File.Type, Width: w, Height: h, Stride: w, Data: dst}}
			if band == l.Alpha-1 {
				masks[i] = make([]byte, w*h)
				setMask(masks[i], dst)
			}
		}
	}
	return sections, nil
}

// appendLevels appends the encoded tiles of the levels that are whole in the block, and the block's
// pixels of the others.
func (e *Encoder) appendLevels(b block.Block, sections [][]byte) error {
	l := e.l
	for i, s := range sections {
		if l.levels[i].whole {
			if err := e.encodeLevel(b, i, s); err != nil {
				return err
			}
		}
	}
	for i, s := range sections {
		if l.levels[i].pixels() {
			e.rec.sections = append(e.rec.sections, section{i, len(e.rec.Data), len(s)})
			e.rec.Data = append(e.rec.Data, s...)
		}
	}
	return nil
}

// encodeLevel appends the tiles of the block in an overview level whose pixels of all bands are
// given.
func (e *Encoder) encodeLevel(b block.Block, level int, pixels []byte) error {
	l, r := e.l, &e.rec
	w := l.blockWindow(level, b)
	a := ndarray.FromBytes(l.File.Type, pixels, l.File.Bands, w.Height, w.Width)
	for plane := range l.File.Planes() {
		for at := range l.tilesIn(w) {
			coding, final := e.chooser.coding()
			t := recordTile{level: level, index: l.File.TileIndex(level, plane, at.col, at.row), offset: len(r.Data),
				final: final}
			part := l.tileWindow(level, at.col, at.row).Shift(-w.Col, -w.Row)
			if err := e.encodeOverview(coding, a, plane, part, level); err != nil {
				return err
			}
			t.length = len(r.Data) - t.offset
			r.tiles = append(r.tiles, t)
		}
	}
	return nil
}

// encodeOverview appends the tile of an overview level that covers part of an array.
func (e *Encoder) encodeOverview(c tiffwrite.Coding, a *ndarray.Array, plane int, part block.Window, level int) error {
	var err error
	if rows, stride := e.rowsInPlace(a, plane, part); rows != nil && c.Predictor > 1 {
		e.rec.Data, err = e.encoder(c).EncodeRows(e.rec.Data, rows, stride, e.pixels, nil)
	} else {
		e.gather(a, plane, part, level)
		e.rec.Data, err = e.encoder(c).EncodeOver(e.rec.Data, e.pixels)
	}
	return err
}

// aligned returns n bytes that are aligned for pixels of any type. It reuses b if that is large
// enough.
func aligned(b []byte, n int) []byte {
	if cap(b) < n {
		b = ndarray.New(ndarray.Complex128, (n+15)/16).Raw()
	}
	return b[:n]
}

// describe writes the tables of the record: tiles, sections, results other than pixels, histograms.
func (e *Encoder) describe(r *Record) {
	le := binary.LittleEndian
	m := le.AppendUint32(r.Meta[:0], uint32(len(r.tiles)))
	m = le.AppendUint32(m, uint32(len(r.sections)))
	for _, t := range r.tiles {
		m = appendTileEntry(m, t.index, t.length, t.final)
		m = le.AppendUint32(m, uint32(len(t.moments)))
		for _, s := range t.moments {
			m = le.AppendUint64(m, uint64(s.Total))
			m = le.AppendUint64(m, uint64(s.Valid))
			m = le.AppendUint64(m, uint64(s.NaN))
			m = le.AppendUint64(m, uint64(s.Infinite))
			for _, v := range [4]float64{s.Min, s.Max, s.Mean, s.M2} {
				m = le.AppendUint64(m, math.Float64bits(v))
			}
		}
	}
	for _, s := range r.sections {
		m = le.AppendUint32(m, uint32(s.level))
		m = le.AppendUint32(m, uint32(s.length))
	}
	m = r.Extra.appendTo(m)
	histograms := len(m)
	for _, c := range e.collectors {
		m = c.AppendHistogram(m)
	}
	r.Meta, r.histograms = m, m[histograms:]
}

// appendTileEntry writes an entry of a record's tile table: index, length, and 1 if the coding is
// final.
func appendTileEntry(m []byte, index, length int, final bool) []byte {
	m = binary.LittleEndian.AppendUint32(m, uint32(index))
	m = binary.LittleEndian.AppendUint32(m, uint32(length))
	if final {
		return binary.LittleEndian.AppendUint32(m, 1)
	}
	return binary.LittleEndian.AppendUint32(m, 0)
}

// setMask sets mask to 255 where a pixel of an alpha band is not 0, and to 0 elsewhere.
func setMask(mask, alpha []byte) { driver.AlphaMask(alpha, len(alpha)/len(mask), mask) }
