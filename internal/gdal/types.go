package gdal

import (
	"leat/internal/colortable"
	"leat/ndarray"
	"leat/raster"
)

// GDAL's pixel types.
const (
	gdtByte = iota + 1
	gdtUInt16
	gdtInt16
	gdtUInt32
	gdtInt32
	gdtFloat32
	gdtFloat64
	gdtCInt16
	gdtCInt32
	gdtCFloat32
	gdtCFloat64
	gdtUInt64
	gdtInt64
	gdtInt8 // since 3.7
	gdtFloat16
	gdtCFloat16 // both since 3.11
)

const (
	since35 = 3_05_00_00
	since37 = 3_07_00_00
)

// pixelTypes maps GDAL's types to those they are read as, with their names where these differ.
var pixelTypes = map[int32]struct {
	read   ndarray.DType
	stored string
}{
	gdtByte: {ndarray.Uint8, ""}, gdtUInt16: {ndarray.Uint16, ""}, gdtInt16: {ndarray.Int16, ""},
	gdtUInt32: {ndarray.Uint32, ""},
	gdtInt32:  {ndarray.Int32, ""}, gdtFloat32: {ndarray.Float32, ""}, gdtFloat64: {ndarray.Float64, ""},
	gdtCInt16: {ndarray.Complex64, "int16 complex"}, gdtCInt32: {ndarray.Complex128, "int32 complex"},
	gdtCFloat32: {ndarray.Complex64, ""}, gdtCFloat64: {ndarray.Complex128, ""},
	gdtUInt64: {ndarray.Uint64, ""}, gdtInt64: {ndarray.Int64, ""}, gdtInt8: {ndarray.Int8, ""},
	gdtFloat16: {ndarray.Float32, "float16"}, gdtCFloat16: {ndarray.Complex64, "float16 complex"},
}

// gdalType returns the type in which GDAL fills an array of t, or 0. Before 3.7, GDAL reads signed
// bytes as bytes, with a metadata item.
func gdalType(t ndarray.DType) int32 {
	switch {
	case t == ndarray.Int8 && version < since37:
		return gdtByte
	case (t == ndarray.Int64 || t == ndarray.Uint64) && version < since35:
		return 0
	}
	for number, p := range pixelTypes {
		if p.read == t && p.stored == "" {
			return number
		}
	}
	return 0
}

// colors holds the colours in GDAL's order.
var colors = colortable.Meanings()

func colorOf(n int32) raster.Color {
	if n >= 0 && int(n) < len(colors) {
		return colors[n]
	}
	return raster.ColorUndefined
}
