package gdal

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"leat/internal/driver"
	"leat/internal/scalarvalue"
	"leat/ndarray"
	"leat/raster"
)

// loss is the set of pixels of a type that GDAL changes silently when it resamples them, since it
// computes in floats.
type loss int

const (
	lossless  loss = iota
	inFloat64      // integers are exact up to 2^53
	inFloat32      // up to 2^24, and most float64 are rounded
	minusOne       // a pixel of -1 is treated as invalid
)

// most returns the largest integer up to which all integers are exact.
func (l loss) most() uint64 {
	if l == inFloat32 {
		return 1 << 24
	}
	return 1 << 53
}

// lossOf tries the loaded GDAL, since versions differ.
func lossOf(m method, t ndarray.DType) loss {
	mode := m.number == methods["mode"].number
	one := func(v ndarray.Scalar, err error) bool { return err == nil && comesThrough(m, v) }
	switch {
	case t == ndarray.Int64 || t == ndarray.Uint64:
		switch {
		case mode && !one(ndarray.ScalarFromFloat(1<<24+1, t)):
			return inFloat32
		case !one(ndarray.ParseScalar("9007199254740993", t)):
			return inFloat64
		}
	case mode && (t == ndarray.Int32 || t == ndarray.Uint32) && !one(ndarray.ScalarFromFloat(1<<24+1, t)),
		mode && t == ndarray.Float64 && !one(ndarray.ScalarOf(0.1), nil):
		return inFloat32
	case mode && (t == ndarray.Int8 || t == ndarray.Int16) && !one(ndarray.ScalarFromFloat(-1, t)):
		return minusOne
	}
	return lossless
}

var trials sync.Map // method number and scalar to whether it is preserved

type trial struct {
	method int32
	value  ndarray.Scalar
}

// comesThrough reports whether a raster that holds only this value keeps it when four pixels are
// reduced to one.
func comesThrough(m method, v ndarray.Scalar) bool {
	key := trial{m.number, v}
	if known, ok := trials.Load(key); ok {
		return known.(bool)
	}
	through := warpedTrial(m, v)
	trials.Store(key, through)
	return through
}

func warpedTrial(m method, v ndarray.Scalar) bool {
	const side = 4
	address, err := transformerAddress()
	if err != nil {
		return false
	}
	info := raster.Info{Path: "a raster made for a trial", Bands: []raster.Band{{Type: v.Type}}}
	w := &Warped{info: info, src: &File{info: info}, method: m, xs: 0.5, ys: 0.5, address: address,
		lenses: map[hDataset]*transformer{},
		grid:   raster.Grid{HasTransform: true, Transform: raster.Transform{0, 2, 0, side, 0, -2}}}
	six := raster.Transform{0, 1, 0, side, 0, -1}
	pixel := make([]byte, v.Type.Size())
	scalarvalue.Put(v, pixel)
	pixels := bytes.Repeat(pixel, side*side)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&pixels[0])
	var h hDataset
	if try(info.Path, "make", func() bool {
		h = c.GDALCreate(c.GDALGetDriverByName("MEM"), "", side, side, 1, gdalType(v.Type), nil)
		return h != 0 && c.GDALSetGeoTransform(h, &six[0]) == 0 &&
			c.GDALRasterIOEx(c.GDALGetRasterBand(h, 1), 1, 0, 0, side, side, unsafe.Pointer(&pixels[0]), side, side,
				gdalType(v.Type), 0, 0, nil) == 0
	}) != nil {
		if h != 0 {
			closeDataset(h)
		}
		return false
	}
	defer closeDataset(h)
	defer w.dropTransformers()
	l, err := w.transformer(h)
	if err != nil {
		return false
	}
	got := make([]byte, len(pixels)/4)
	p := piece{at: raster.Window{Width: side / 2, Height: side / 2}, from: raster.Window{Width: side, Height: side}}
	return l.run(work{bands: []int{1}}, p, got, nil) == nil && bytes.Equal(got, pixels[:len(got)])
}

// checkBytes is about how much of the input the check reads at once.
const checkBytes = 256 << 10

// check returns an error for valid pixels in window from of the input that a warp would change. It
// checks the input rather than the result, where sums might hide a changed pixel. With masking, it
// checks only for pixels that would become invalid.
func (l *transformer) check(ctx context.Context, bands []int, from raster.Window, masking bool) error {
	if from.Empty() {
		return nil
	}
	for _, band := range bands {
		lost := l.w.losses[band-1]
		if lost == lossless || masking && lost != minusOne {
			continue
		}
		part := from
		for step := max(1, checkBytes/(from.Width*l.w.info.Bands[band-1].Type.Size())); part.Row < from.Row+
			from.Height; part.Row += part.Height {
			part.Height = min(step, from.Row+from.Height-part.Row)
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := l.checkPart(ctx, band, lost, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *transformer) checkPart(ctx context.Context, band int, lost loss, part raster.Window) error {
	a := ndarray.New(l.w.info.Bands[band-1].Type, part.Height, part.Width)
	if err := l.read(band, part, gdalType(a.Type), unsafe.Pointer(&a.Data[0]), a.Type.Size()); err != nil {
		return err
	}
	var found []changedPixel
	nodata := l.w.nodata[band-1]
	most := lost.most()
	switch a.Type {
	case ndarray.Int64:
		found = changed(a, nodata, func(v int64) bool { return v > int64(most) || v < -int64(most) })
	case ndarray.Uint64:
		found = changed(a, nodata, func(v uint64) bool { return v > most })
	case ndarray.Int32:
		found = changed(a, nodata, func(v int32) bool { return v > int32(most) || v < -int32(most) })
	case ndarray.Uint32:
		found = changed(a, nodata, func(v uint32) bool { return v > uint32(most) })
	case ndarray.Float64:
		found = changed(a, nodata, func(v float64) bool { return float64(float32(v)) != v && !math.IsNaN(v) })
	case ndarray.Int16:
		found = changed(a, nodata, func(v int16) bool { return v == -1 })
	case ndarray.Int8:
		found = changed(a, nodata, func(v int8) bool { return v == -1 })
	}
	if len(found) == 0 {
		return nil
	}
	valid, err := l.validPixels(ctx, part)
	if err != nil {
		return err
	}
	for _, p := range found {
		if valid == nil || valid[p.at] {
			return l.w.changedError(lost, p.value, band, part.Col+p.at%part.Width, part.Row+p.at/part.Width)
		}
	}
	return nil
}

type changedPixel struct {
	at    int
	value ndarray.Scalar
}

// changed lists the pixels that would change, except nodata.
func changed[T ndarray.Real](a *ndarray.Array, nodata *ndarray.Scalar, changes func(v T) bool) (found []changedPixel) {
	for i, v := range ndarray.Slice[T](a) {
		if changes(v) && (nodata == nil || scalarvalue.As[T](*nodata) != v) {
			found = append(found, changedPixel{i, ndarray.ScalarOf(v)})
		}
	}
	return found
}

// read reads a part of a band of the input.
func (l *transformer) read(band int, part raster.Window, typ int32, to unsafe.Pointer, size int) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(to)
	return try(l.w.src.info.Path, "read", func() bool {
		return c.GDALRasterIOEx(c.GDALGetRasterBand(l.h, int32(band)), 0, int32(part.Col), int32(part.Row),
			int32(part.Width), int32(part.Height), to,
			int32(part.Width), int32(part.Height), typ, int64(size), int64(size*part.Width), nil) == 0
	})
}

// validPixels returns which pixels of a part the input's mask or alpha keeps, nil if it has
// neither.
func (l *transformer) validPixels(ctx context.Context, part raster.Window) ([]bool, error) {
	valid := make([]bool, part.Pixels())
	switch w := l.w; {
	case w.alpha > 0:
		alpha := make([]float64, len(valid))
		if err := l.read(w.alpha, part, gdtFloat64, unsafe.Pointer(&alpha[0]), 8); err != nil {
			return nil, err
		}
		for i, v := range alpha {
			valid[i] = v != 0
		}
	case w.masked:
		mask := make([]byte, len(valid))
		if err := w.src.readMask(ctx, l.h, w.src.masks[0], part, mask); err != nil {
			return nil, err
		}
		for i, v := range mask {
			valid[i] = v != 0
		}
	default:
		return nil, nil
	}
	return valid, nil
}

// changedError describes a pixel that would change, and what to do.
func (w *Warped) changedError(lost loss, v ndarray.Scalar, band, col, row int) error {
	why, instead := "in float64, where whole numbers are exact up to 2^53 only",
		"round its pixels first, with: gdal_translate -ot Float64"
	switch {
	case lost == minusOne:
		why, instead = "as if pixels of -1 were invalid",
			"declare -1 as its nodata, or resample it by near, or make its pixels int32 first, with: gdal_translate -ot Int32"
	case lost == inFloat32 && v.Type == ndarray.Float64:
		why, instead = "in float32, which has no such value",
			"resample it by near, or round its pixels first, with: gdal_translate -ot Float32"
	case lost == inFloat32:
		why, instead = "in float32, where whole numbers are exact up to 2^24 only", "resample it by near"
		if math.Abs(v.Float64()) >= 1<<53 { // near is not an alternative then
			instead = "round its pixels first, with: gdal_translate -ot Float32"
		}
	}
	path := w.src.info.Path
	if strings.Contains(instead, "gdal_translate") {
		instead += " " + driver.GDALName(path) + " out.tif"
	}
	return fmt.Errorf("%s: the pixel of band %d at column %d, row %d is %v, and GDAL %s resamples pixels of %v by %s %s, so it would change: "+
		"use a grid that fits the file's pixels, so that it is not resampled, or %s (%w)", path, band, col, row, v,
		c.GDALVersionInfo("RELEASE_NAME"), v.Type, w.method.name(), why, instead, raster.ErrUnsupported)
}

func (m method) name() string {
	for _, name := range Methods() {
		if methods[name].number == m.number {
			return name
		}
	}
	return ""
}
