// Package geotiff reads and writes GeoTIFF and BigTIFF files without any C library.
//
// Reading: [Open] gives a [File], a raster.Source over classic and BigTIFF files of either byte
// order, in strips or tiles, band- or pixel-interleaved, uncompressed or compressed with deflate, LZW, zstd or
// PackBits. Whatever a header claims, memory is taken only for what the file can hold.
//
// Writing is in two halves, since the expensive one is done by many goroutines: an [Encoder] turns
// the pixels of one tile into the bytes of the file, and [Write] lays finished tiles out as a cloud-optimised
// GeoTIFF by copying them.
package geotiff
