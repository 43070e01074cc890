package apply

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"leat/block"
	"leat/ndarray"
	"leat/raster/geotiff"
	"leat/raster/overview"
	"leat/raster/stats"
)

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// encoding turns blocks of one output into records of its spool, for one worker. It does not use
// the spool and may run in another process.
type encoding struct {
	o          *output
	lane       string
	encoders   map[geotiff.Coding]*geotiff.Encoder
	collectors []*stats.Collector // by band
	pixels     []byte             // one tile before encoding
	mask       []byte             // of the part of the tile inside the raster, if the output has an alpha band
	rec        record             // of the last encoded block
}

// record is the result of a block for one output: the contents of its record in the spool, and the
// record's tables in decoded form.
type record struct {
	data       []byte // encoded tiles, then overview pixels
	meta       []byte // written before data: tables of what data holds
	tiles      []pending
	sections   []section
	extra      extra
	histograms []byte // of all bands, empty if there are none; part of meta
	values     extent // the emitted values and their number; part of meta
}

// extent is a range of bytes.
type extent struct{ at, length int64 }

// pending is an encoded tile in a record's data.
type pending struct {
	index      int
	at, length int
	final      bool
	moments    []stats.Moments // of the bands in the tile
}

// section is a block's pixels of one overview level in data.
type section struct{ level, at, length int }

func newEncoding(o *output, lane string) *encoding {
	e := &encoding{o: o, lane: lane, encoders: map[geotiff.Coding]*geotiff.Encoder{},
		pixels: ndarray.New(ndarray.Uint8, o.file.Shape().Bytes()).Raw()}
	for range o.bands {
		e.collectors = append(e.collectors,
			stats.NewCollector(o.typ, o.nodata, !o.spec.NoHistogram && !o.spec.NoStatistics && !o.typ.IsComplex()))
	}
	return e
}

func (e *encoding) encoder(c geotiff.Coding) *geotiff.Encoder {
	enc := e.encoders[c]
	if enc == nil {
		enc = geotiff.NewEncoder(e.o.file.Shape(), c)
		e.encoders[c] = enc
	}
	return enc
}

// block encodes an output array of shape (bands, rows, columns), whose rows have no gaps between
// pixels. The record is valid until the next call.
func (e *encoding) block(b block.Block, a *ndarray.Array, x extra) (*record, error) {
	o, rec := e.o, e.o.run.timings
	r := &e.rec
	*r = record{data: r.data[:0], meta: r.meta[:0], tiles: r.tiles[:0], sections: r.sections[:0], extra: x}
	begin := time.Now()
	var inStats time.Duration
	w := b.Window
	for plane := range o.file.Planes() {
		for row := w.Row / o.tileH; row*o.tileH < w.Row+w.Height; row++ {
			for col := w.Col / o.tileW; col*o.tileW < w.Col+w.Width; col++ {
				part := o.tileWindow(0, col, row)
				e.gather(a, plane, part.Shift(-w.Col, -w.Row))
				p := pending{index: o.file.TileIndex(0, plane, col, row), at: len(r.data)}
				coding, final := o.chooser.coding()
				if !final || !o.spec.NoStatistics {
					start := time.Now()
					e.readAlpha(a, part.Shift(-w.Col, -w.Row))
					p.moments = e.moments(plane, part.Width, part.Height)
					if err := o.chooser.offer(p.index, e.pixels, p.moments[0]); err != nil {
						return nil, err
					}
					inStats += time.Since(start)
					coding, final = o.chooser.coding()
				}
				var err error
				if r.data, err = e.encoder(coding).Encode(r.data, e.pixels); err != nil {
					return nil, err
				}
				p.length, p.final = len(r.data)-p.at, final
				r.tiles = append(r.tiles, p)
			}
		}
	}
	rec.Record("statistics", e.lane, b.Number, begin, inStats)
	rec.Record("encoding", e.lane, b.Number, begin.Add(inStats), time.Since(begin)-inStats)
	if err := e.reduce(b, a); err != nil {
		return nil, err
	}
	e.describe(r)
	return r, nil
}

// gather copies the part of the array that a tile covers into e.pixels. Beyond the raster's edge it
// repeats the last pixel of each row and the last row, which compresses best.
func (e *encoding) gather(a *ndarray.Array, plane int, part block.Window) {
	o := e.o
	size := o.typ.Size()
	step := size // from pixel to pixel in the tile
	bands := []*ndarray.Array{a.At(plane)}
	if o.file.PixelInterleave {
		bands = bands[:0]
		for i := range o.bands {
			bands = append(bands, a.At(i))
		}
		step *= len(bands)
	}
	rowBytes := o.tileW * step
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
	for y := range part.Height {
		row := e.pixels[y*rowBytes : (y+1)*rowBytes]
		for n := part.Width * step; n < len(row); n += step {
			copy(row[n:n+step], row[n-step:n])
		}
	}
	last := e.pixels[(part.Height-1)*rowBytes : part.Height*rowBytes]
	for y := part.Height; y < o.tileH; y++ {
		copy(e.pixels[y*rowBytes:], last)
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
func (e *encoding) readAlpha(a *ndarray.Array, part block.Window) {
	if e.o.alpha == 0 {
		return
	}
	b, size := a.At(e.o.alpha-1), e.o.typ.Size()
	e.mask = slices.Grow(e.mask[:0], part.Width*part.Height)[:part.Width*part.Height]
	for y := range part.Height {
		from := b.Offset + (part.Row+y)*b.Strides[0] + part.Col*size
		maskOf(e.mask[y*part.Width:(y+1)*part.Width], b.Data[from:from+part.Width*size])
	}
}

// maskFor returns the mask of a band, counted from 0; nil for the alpha band itself.
func (e *encoding) maskFor(band int) []byte {
	if e.o.alpha == 0 || band == e.o.alpha-1 {
		return nil
	}
	return e.mask
}

// moments returns the moments of each band of the tile in e.pixels.
func (e *encoding) moments(plane, width, height int) []stats.Moments {
	if !e.o.file.PixelInterleave {
		return []stats.Moments{e.collectors[plane].MaskedTile(e.pixels, e.maskFor(plane), width, height, e.o.tileW, 1)}
	}
	n := e.o.bands
	list := make([]stats.Moments, n)
	for i := range list {
		list[i] = e.collectors[i].MaskedTile(e.pixels[i*e.o.typ.Size():], e.maskFor(i), width, height, e.o.tileW*n, n)
	}
	return list
}

// reduce appends the block's pixels of all overview levels that are made block by block.
func (e *encoding) reduce(b block.Block, a *ndarray.Array) error {
	o := e.o
	if len(o.levels) == 1 {
		return nil
	}
	defer o.run.timings.Start("overviews", e.lane, b.Number).Stop()
	type source struct {
		factor int
		plane  overview.Plane
	}
	sections := make([][]byte, len(o.levels))
	masks := make([][]byte, len(o.levels)) // by level, of the output's alpha band
	whole := block.Window{Width: b.Window.Width, Height: b.Window.Height}
	if o.alpha > 0 && o.spec.OverviewMethod != overview.Nearest {
		e.readAlpha(a, whole)
		masks[0] = slices.Clone(e.mask)
	}
	for _, band := range o.alphaFirst() {
		p := a.At(band)
		full := source{1, overview.Plane{Type: o.typ, Width: b.Window.Width, Height: b.Window.Height,
			Stride: p.Strides[0] / o.typ.Size(), Data: p.Data[p.Offset:]}}
		from := full
		for i, l := range o.levels {
			if i == 0 || l.sections == nil {
				continue
			}
			if o.spec.OverviewMethod == overview.Nearest {
				from = full
			}
			f := l.factor / from.factor
			if from.plane.Mask = masks[i-1]; band == o.alpha-1 {
				from.plane.Mask = nil
			}
			w, h := overview.Reduced(from.plane.Width, f), overview.Reduced(from.plane.Height, f)
			if sections[i] == nil {
				sections[i] = ndarray.New(o.typ, o.bands, h, w).Raw()
			}
			n := w * h * o.typ.Size()
			dst := sections[i][band*n : (band+1)*n]
			if err := overview.Reduce(o.spec.OverviewMethod, dst, from.plane, f, o.nodata); err != nil {
				return err
			}
			from = source{l.factor, overview.Plane{Type: o.typ, Width: w, Height: h, Stride: w, Data: dst}}
			if band == o.alpha-1 {
				masks[i] = make([]byte, w*h)
				maskOf(masks[i], dst)
			}
		}
	}
	for i, s := range sections {
		if s != nil {
			e.rec.sections = append(e.rec.sections, section{i, len(e.rec.data), len(s)})
			e.rec.data = append(e.rec.data, s...)
		}
	}
	return nil
}

// alphaFirst lists the output's bands, counted from 0, beginning with the alpha band, which masks
// the others.
func (o *output) alphaFirst() []int {
	var list []int
	if o.alpha > 0 {
		list = append(list, o.alpha-1)
	}
	for band := range o.bands {
		if band != o.alpha-1 {
			list = append(list, band)
		}
	}
	return list
}

// describe writes the tables of the record: tiles, sections, results other than pixels, histograms.
func (e *encoding) describe(r *record) {
	le := binary.LittleEndian
	m := le.AppendUint32(r.meta[:0], uint32(len(r.tiles)))
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
	m = r.extra.appendTo(m)
	histograms := len(m)
	for _, c := range e.collectors {
		if c.Histogram != nil {
			m = c.Histogram.AppendTo(m)
		}
	}
	r.meta, r.histograms = m, m[histograms:]
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
