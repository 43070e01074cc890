// Package geotiff reads GeoTIFF and BigTIFF files without a C library.
//
// [Open] returns a [File], a raster.Source over classic and BigTIFF files of either byte order, in
// strips or tiles, band- or pixel-interleaved, uncompressed or compressed with deflate, LZW, zstd
// or PackBits. Whatever a header claims, memory is allocated only for what the file can hold.
package geotiff
