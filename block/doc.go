// Package block divides a raster into blocks and computes where each of them reads its pixels:
// windows in row-major order, the margin around them, and the pixels that replace those beyond the
// edge of the data. It also has the bounded free list through which the stages of a pipeline return
// buffers.
//
// The types to know are [Window], [Plan] and [FreeList]. Everything here is arithmetic on whole
// pixels; nothing reads or writes.
package block
