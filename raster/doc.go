// Package raster says what a raster is: the grid its pixels lie on, what its bands mean, and how
// windows of pixels are read. The drivers live in the packages below it; each is opened by its own
// Open function and handed on as a [Source].
//
// Arrays of pixels are always (bands, rows, columns), windows are given as column and row of the
// upper left pixel and then width and height, bands are counted from 1.
package raster
