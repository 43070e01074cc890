// Package tiff holds what readers and writers of TIFF files share: the numbers of the format, and
// the decompression of tiles. Readers are in internal/geotiff, the writer is in internal/tiffwrite.
package tiff
