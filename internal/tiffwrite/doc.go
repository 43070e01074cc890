// Package tiffwrite writes cloud-optimized GeoTIFFs.
//
// Writing has two parts, because many goroutines do the expensive one: an [Encoder] encodes the
// pixels of one tile with a [Coding], and [Write] copies finished tiles into a file that a
// [FileSpec] describes.
package tiffwrite
