// Package block cuts a raster into blocks and says where each of them takes its pixels from: windows
// in row-major order, the margin around them, and what stands in for pixels beyond the edge of the
// data. It also holds the bounded free list by which the stages of a pipeline hand buffers back.
//
// The types to know are [Window], [Plan] and [FreeList]. Everything here is arithmetic on whole
// pixels; nothing reads or writes.
package block
