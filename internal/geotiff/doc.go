// Package geotiff reads GeoTIFF and BigTIFF files without a C library.
//
// It is the package raster/geotiff for leat's own packages, which need more of a [File] than
// programs do.
//
// [Open] returns a [File], a raster.Source over classic and BigTIFF files of either byte order, in
// strips or tiles, band- or pixel-interleaved, uncompressed or compressed with deflate, LZW, zstd
// or PackBits. Whatever a header claims, memory is allocated only for what the file can hold.
package geotiff
