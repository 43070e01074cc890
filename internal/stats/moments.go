package stats

import (
	"bytes"
	"math"

	"leat/internal/scalarvalue"
	"leat/ndarray"
)

// Moments summarize a set of pixels. The zero value summarizes none.
type Moments struct {
	Total    int64 // all pixels
	Valid    int64 // not masked, nodata, NaN or infinite
	NaN      int64
	Infinite int64   // counted in no other field but Total, since one infinity would make Mean and M2 useless
	Min      float64 // of the Valid pixels, like the fields below; meaningless when Valid is 0
	Max      float64
	Mean     float64
	M2       float64 // sum of squared differences from Mean
}

// Merge adds the pixels that o summarizes to m.
func (m *Moments) Merge(o Moments) {
	m.Total += o.Total
	m.NaN += o.NaN
	m.Infinite += o.Infinite
	switch {
	case o.Valid == 0:
		return
	case m.Valid == 0:
		m.Valid, m.Min, m.Max, m.Mean, m.M2 = o.Valid, o.Min, o.Max, o.Mean, o.M2
		return
	}
	n, k := float64(m.Valid), float64(o.Valid)
	d := o.Mean - m.Mean
	m.Valid += o.Valid
	sum := n + k
	// Each product is rounded separately, so that all architectures get the same sums.
	if math.IsInf(d, 0) { // the difference is beyond float64, the mean is not
		m.Mean = float64(m.Mean*(n/sum)) + float64(o.Mean*(k/sum))
	} else {
		m.Mean += float64(d * (k / sum))
	}
	m.M2 += o.M2 + float64(float64(d*d)*float64(n*(k/sum)))
	m.Min, m.Max = min(m.Min, o.Min), max(m.Max, o.Max)
}

// StdDev returns the population standard deviation, as GDAL does.
func (m *Moments) StdDev() float64 {
	if m.Valid == 0 {
		return 0
	}
	return math.Sqrt(m.M2 / float64(m.Valid))
}

// ValidPercent returns the share of valid pixels in percent, infinite ones included.
func (m *Moments) ValidPercent() float64 {
	if m.Total == 0 {
		return 0
	}
	return 100 * float64(m.Valid+m.Infinite) / float64(m.Total)
}

// Collector summarizes the pixels of one band: moments for each tile, and a histogram over all
// tiles. Only one goroutine may use it at a time.
type Collector struct {
	typ       ndarray.DType
	tile      tileFunc // nil for complex types
	nodata    *ndarray.Scalar
	histogram *histogram // nil when none is wanted
	packed    []byte     // chunk pixels without invalid ones; nil until it is needed
}

// NewCollector returns a collector for a band of type t. nodata may be nil. Complex bands have no
// statistics: all their pixels count as invalid.
func NewCollector(t ndarray.DType, nodata *ndarray.Scalar, histogram bool) *Collector {
	c := &Collector{typ: t, tile: tiles[t], nodata: nodata}
	if histogram {
		c.histogram = newHistogram(t)
	}
	return c
}

// AppendHistogram appends the histogram of the tiles so far to dst and empties it. The format is a
// uvarint with the number of nonzero counters, then for each the distance from the previous counter
// and its count, as uvarints. A collector without a histogram appends nothing.
func (c *Collector) AppendHistogram(dst []byte) []byte {
	if c.histogram == nil {
		return dst
	}
	return c.histogram.appendTo(dst)
}

// Tile returns the moments of width x height pixels of data, in the machine's byte order. stride is
// the distance between rows and step between neighbouring pixels, in elements: step is 1, or the
// number of bands for pixel-interleaved data. Pixels whose mask, height rows of width bytes, is 0
// do not count; a nil mask excludes none.
func (c *Collector) Tile(data, mask []byte, width, height, stride, step int) (m Moments) {
	c.Add(&m, data, mask, width, height, stride, step)
	return m
}

// Add is Tile for the next rows of a tile, and adds them to its moments m.
func (c *Collector) Add(m *Moments, data, mask []byte, width, height, stride, step int) {
	if c.tile != nil {
		*m = c.tile(c, *m, data, mask, width, height, stride, step)
	} else {
		m.Total += int64(width) * int64(height)
	}
}

// tileFunc is the function of Add for a type. It returns the new moments.
type tileFunc func(c *Collector, m Moments, data, mask []byte, width, height, stride, step int) Moments

// tiles holds the functions of the real types.
var tiles = map[ndarray.DType]tileFunc{
	ndarray.Float16: halfTile,
	ndarray.Uint8:   tile[uint8], ndarray.Int8: tile[int8], ndarray.Uint16: tile[uint16], ndarray.Int16: tile[int16],
	ndarray.Uint32: tile[uint32], ndarray.Int32: tile[int32], ndarray.Uint64: tile[uint64],
	ndarray.Int64: tile[int64], ndarray.Float32: tile[float32], ndarray.Float64: tile[float64],
}

// chunk is the number of pixels summarized at a time: two passes over 8 KiB of float64 stay in the
// L1 cache.
const chunk = 1024

func tile[T ndarray.Real](c *Collector, m Moments, data, mask []byte, width, height, stride, step int) Moments {
	px := ndarray.Cast[T](data)
	var nodata T
	has := c.nodata != nil && !c.nodata.IsNaN()
	if has {
		nodata = scalarvalue.As[T](*c.nodata)
	}
	size, whole := c.typ.Size(), exact(c.typ)
	var packed []T
	if (mask != nil || has || step > 1) && c.packed == nil {
		c.packed = ndarray.New(c.typ, chunk).Raw()
	}
	if c.packed != nil {
		packed = ndarray.Cast[T](c.packed)
	}
	floats, _ := any(px).([]float32)
	single := 0 // rows before it are summarized one by one
	if floats == nil || step > 1 || mask != nil || has || width > chunk {
		single = height
	}
	for y := 0; y < height; y++ {
		if y >= single && y+4 <= height {
			if summarizeRows(&m, floats[y*stride:], width, stride, c.histogram) {
				m.Total += 4 * int64(width)
				y += 3
				continue
			}
			single = y + 4
		}
		row := px[y*stride:]
		for x := 0; x < width; x += chunk {
			n := min(chunk, width-x)
			m.Total += int64(n)
			part := row[x*step:]
			if step == 1 && mask == nil && whole {
				from := (y*stride + x) * size
				if b := data[from : from+n*size]; bytes.Equal(b[size:], b[:len(b)-size]) {
					if !has || part[0] != nodata {
						m.Merge(c.uniform(int(part[0]), n))
					}
					continue
				}
			}
			switch {
			case mask != nil:
				part = packed[:gatherMasked(packed, part, mask[y*width+x:][:n], step, has, nodata)]
			case step == 1 && !has:
				part = part[:n]
			default:
				part = packed[:gather(packed, part, n, step, has, nodata)]
			}
			m.Merge(summarize(part, c.histogram))
		}
	}
	return m
}

// uniform is summarize for n times the same value, of 8 or 16 bits.
func (c *Collector) uniform(v, n int) Moments {
	if c.histogram != nil {
		at := v
		if c.typ.IsSigned() {
			at += 1 << (8*c.typ.Size() - 1)
		}
		c.histogram.touch(at, at)
		c.histogram.counts[at] += uint32(n)
	}
	return Moments{Valid: int64(n), Min: float64(v), Max: float64(v), Mean: float64(v)}
}

// halfTile is tile for float16, whose elements Go holds as bits.
func halfTile(c *Collector, m Moments, data, mask []byte, width, height, stride, step int) Moments {
	px := ndarray.Cast[uint16](data)
	var nodata float32
	has := c.nodata != nil && !c.nodata.IsNaN()
	if has {
		nodata = float32(c.nodata.Float64())
	}
	var packed [chunk]float32
	for y := range height {
		for x := 0; x < width; x += chunk {
			n := min(chunk, width-x)
			m.Total += int64(n)
			k := 0
			for i := range n {
				v := ndarray.Float16ToFloat32(px[y*stride+(x+i)*step])
				packed[k] = v
				if (!has || v != nodata) && (mask == nil || mask[y*width+x+i] != 0) { // -0 equals 0
					k++
				}
			}
			m.Merge(summarize(packed[:k], c.histogram))
		}
	}
	return m
}

// gather packs n pixels without those equal to nodata into dst and returns their number.
func gather[T ndarray.Real](dst []T, src []T, n, step int, has bool, nodata T) int {
	k := 0
	for i := range n {
		v := src[i*step]
		dst[k] = v
		if !has || v != nodata {
			k++
		}
	}
	return k
}

// gatherMasked is gather for the pixels whose mask is not 0.
func gatherMasked[T ndarray.Real](dst, src []T, mask []byte, step int, has bool, nodata T) int {
	k := 0
	for i, m := range mask {
		v := src[i*step]
		dst[k] = v
		if m != 0 && (!has || v != nodata) {
			k++
		}
	}
	return k
}
