package gdal

import "unsafe"

// direct lists functions that are called for each block and have only integers and pointers as
// arguments: they call C directly. All other calls use reflection and take a microsecond each,
// which is 15 % of a read of 64 KiB from GDAL's cache. The types are those of the table.
//
// This works on Linux, where each C argument on the stack takes eight bytes. On Apple's arm64 it
// takes the size of its type.
var direct = map[string]func(at uintptr){
	"CPLErrorReset":       func(at uintptr) { c.CPLErrorReset = func() { call(at) } },
	"CPLGetLastErrorType": func(at uintptr) { c.CPLGetLastErrorType = func() int32 { return int32(call(at)) } },
	"GDALRasterIOEx": func(at uintptr) {
		c.GDALRasterIOEx = func(b hBand, write, col, row, width, height int32, pixels unsafe.Pointer, toWidth, toHeight,
			typ int32, pixelStep, lineStep int64, extra unsafe.Pointer) int32 {
			return int32(call(at, uintptr(b), uintptr(write), uintptr(col), uintptr(row), uintptr(width),
				uintptr(height), uintptr(pixels), uintptr(toWidth), uintptr(toHeight), uintptr(typ),
				uintptr(pixelStep), uintptr(lineStep), uintptr(extra)))
		}
	},
	"GDALDatasetRasterIOEx": func(at uintptr) {
		c.GDALDatasetRasterIOEx = func(d hDataset, write, col, row, width, height int32, pixels unsafe.Pointer, toWidth,
			toHeight, typ, count int32, bands *int32, pixelStep, lineStep, bandStep int64, extra unsafe.Pointer) int32 {
			return int32(call(at, uintptr(d), uintptr(write), uintptr(col), uintptr(row), uintptr(width),
				uintptr(height), uintptr(pixels), uintptr(toWidth), uintptr(toHeight), uintptr(typ),
				uintptr(count), uintptr(unsafe.Pointer(bands)), uintptr(pixelStep), uintptr(lineStep),
				uintptr(bandStep), uintptr(extra)))
		}
	},
}
