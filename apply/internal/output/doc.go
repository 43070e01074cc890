// Package output writes the outputs of a run.
//
// An [Output] is what a job asks for, with the decisions that follow from grid and expressions. A
// [Writer] spools its blocks and lays the finished output out, as GeoTIFF or through GDAL; the
// result is [Finished] until it is published under its name, uploaded, or discarded. A published
// file replaces an old one in one step, after the removal of sidecars that belong to the old one.
//
// Several outputs are published one after the other: a process that is killed in between leaves
// some of them old. Nothing is flushed to the disk.
package output
