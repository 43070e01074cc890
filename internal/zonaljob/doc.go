// Package zonaljob computes statistics of zones by a run of package apply. [New] completes an
// apply.Job: its function finds the zones of each block and emits what their pixels contribute,
// Merge adds that up, and the run publishes the table of results. [Functions] has the function for
// worker processes.
//
// A zone's state lives from its first block to its last. Polygons are held in pixel coordinates, 16
// bytes for each vertex, in every process, besides about 40 bytes for each zone and the results of
// finished zones. Zones of a raster are known when their first pixel is found, so their states live
// until the last block.
package zonaljob
