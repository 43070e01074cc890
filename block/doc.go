// Package block divides a raster into blocks and computes where each of them reads its pixels:
// windows in row-major order, the margin around them, and the pixels that replace those beyond the
// edge of the data.
//
// The types to know are [Window] and [Plan]. Everything here is arithmetic on whole
// pixels; nothing reads or writes.
package block
