// Package npy reads and writes the headers of NumPy's .npy files, and reads such files as rasters.
//
// The types to know are [Header], which describes the array of a file, [Elem], the type of its
// elements (numbers, truth values and records of them), and [File], a [raster.Source] of the arrays
// that have the shape (rows, columns) or (bands, rows, columns). A File has no georeferencing and
// no nodata value; it reads with pread and caches no pixels.
//
// Package npy at the top level is its public part.
//
// Headers come from outside: their sizes and nesting are limited, and everything else that NumPy's
// own writer would not produce is an error. Object arrays, texts, dates and big-endian records are
// not supported.
package npy
