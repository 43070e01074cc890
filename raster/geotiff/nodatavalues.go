package geotiff

import (
	"context"
	"math"
	"strings"

	"leat/ndarray"
	"leat/raster"
)

// nodataValues returns the values of the metadata item NODATA_VALUES, one for each band: a pixel is
// invalid where all bands have theirs. Like GDAL it ignores a list of another length and reads
// anything but a number as 0.
func nodataValues(info *raster.Info) []float64 {
	words := strings.Fields(info.Metadata["NODATA_VALUES"])
	if len(words) != len(info.Bands) {
		return nil
	}
	values := make([]float64, len(words))
	for i, word := range words {
		values[i], _ = parseNumber(word)
	}
	return values
}

// readValuesMask sets dst to 0 where all bands have their value of NODATA_VALUES, else to 255.
func (f *File) readValuesMask(ctx context.Context, w raster.Window, dst []byte) error {
	clear(dst)
	// Reads whole rows of tiles, so that each tile is decoded once.
	for y := 0; y < w.Height; {
		end := min(w.Height, ((w.Row+y)/f.im.tileH+1)*f.im.tileH-w.Row)
		part := raster.Window{Col: w.Col, Row: w.Row + y, Width: w.Width, Height: end - y}
		for i, b := range f.info.Bands {
			a := ndarray.New(b.Type, 1, part.Height, part.Width)
			if err := f.Read(ctx, []int{i + 1}, part, a); err != nil {
				return err
			}
			markOthers(dst[y*w.Width:end*w.Width], a, f.values[i])
		}
		y = end
	}
	return nil
}

// markOthers sets dst to 255 where a pixel is not v.
func markOthers(dst []byte, a *ndarray.Array, v float64) {
	switch a.Type {
	case ndarray.Uint8:
		markOtherReals(dst, ndarray.Slice[uint8](a), float64(uint8(int64(v)))) // GDAL drops the high bits
	case ndarray.Int8:
		markOtherReals(dst, ndarray.Slice[int8](a), float64(int8(int64(v))))
	case ndarray.Uint16:
		markOtherReals(dst, ndarray.Slice[uint16](a), v)
	case ndarray.Int16:
		markOtherReals(dst, ndarray.Slice[int16](a), v)
	case ndarray.Uint32:
		markOtherReals(dst, ndarray.Slice[uint32](a), v)
	case ndarray.Int32:
		markOtherReals(dst, ndarray.Slice[int32](a), v)
	case ndarray.Uint64:
		markOtherReals(dst, ndarray.Slice[uint64](a), v)
	case ndarray.Int64:
		markOtherReals(dst, ndarray.Slice[int64](a), v)
	case ndarray.Float32:
		markOtherReals(dst, ndarray.Slice[float32](a), float64(float32(v)))
	case ndarray.Float64:
		markOtherReals(dst, ndarray.Slice[float64](a), v)
	case ndarray.Complex64:
		for i, p := range ndarray.Slice[complex64](a) {
			if real(p) != float32(v) {
				dst[i] = 255
			}
		}
	case ndarray.Complex128:
		for i, p := range ndarray.Slice[complex128](a) {
			if real(p) != v {
				dst[i] = 255
			}
		}
	}
}

// markOtherReals is markOthers for real types. GDAL truncates the values for integer types.
func markOtherReals[T ndarray.Real](dst []byte, px []T, v float64) {
	if ndarray.TypeOf[T]().IsInteger() {
		v = math.Trunc(v)
	}
	for i, p := range px {
		if float64(p) != v {
			dst[i] = 255
		}
	}
}
