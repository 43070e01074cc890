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
			markers[b.Type](dst[y*w.Width:end*w.Width], a, f.values[i])
		}
		y = end
	}
	return nil
}

// markers holds functions that set dst to 255 where a pixel is not v.
var markers = map[ndarray.DType]func(dst []byte, a *ndarray.Array, v float64){
	ndarray.Uint8: markOthers[uint8], ndarray.Int8: markOthers[int8], ndarray.Uint16: markOthers[uint16],
	ndarray.Int16: markOthers[int16], ndarray.Uint32: markOthers[uint32], ndarray.Int32: markOthers[int32],
	ndarray.Uint64: markOthers[uint64], ndarray.Int64: markOthers[int64], ndarray.Float32: markOthers[float32],
	ndarray.Float64: markOthers[float64],
	ndarray.Complex64: func(dst []byte, a *ndarray.Array, v float64) {
		for i, p := range ndarray.Slice[complex64](a) {
			if real(p) != float32(v) {
				dst[i] = 255
			}
		}
	},
	ndarray.Complex128: func(dst []byte, a *ndarray.Array, v float64) {
		for i, p := range ndarray.Slice[complex128](a) {
			if real(p) != v {
				dst[i] = 255
			}
		}
	},
}

// markOthers converts v to the type as GDAL does: it drops the high bits for 8-bit integers, and
// truncates for others.
func markOthers[T ndarray.Real](dst []byte, a *ndarray.Array, v float64) {
	switch a.Type {
	case ndarray.Uint8:
		v = float64(uint8(int64(v)))
	case ndarray.Int8:
		v = float64(int8(int64(v)))
	case ndarray.Float32:
		v = float64(float32(v))
	case ndarray.Float64:
	default:
		v = math.Trunc(v)
	}
	for i, p := range ndarray.Slice[T](a) {
		if float64(p) != v {
			dst[i] = 255
		}
	}
}
