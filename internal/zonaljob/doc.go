// Package zonaljob computes statistics of zones by a run of package apply. [Complete] completes an
// apply.Job: its function finds the zones of each block and emits what their pixels contribute,
// Merge adds that up, and the run publishes the table of results. [Functions] has the function for
// worker processes. Blocks without a polygon are skipped.
//
// A zone's state lives from its first block to its last. Every process holds the polygons in pixel
// coordinates: 16 bytes for each vertex, and about 60 for each zone. The process of the run also
// holds the results of finished zones. The zones of a raster are unknown before their pixels are
// read, so their states live until the last block.
package zonaljob
