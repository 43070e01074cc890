// Package geotiff reads and writes GeoTIFF and BigTIFF files without a C library.
//
// [Open] returns a [File], a raster.Source over classic and BigTIFF files of either byte order, in
// strips or tiles, band- or pixel-interleaved, uncompressed or compressed with deflate, LZW, zstd
// or PackBits. Whatever a header claims, memory is allocated only for what the file can hold.
//
// Writing has two parts, because many goroutines do the expensive one: an [Encoder] encodes the
// pixels of one tile, and [Write] copies finished tiles into a cloud-optimised GeoTIFF.
package geotiff
