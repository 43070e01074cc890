// Package apply runs a function over every block of rasters. It opens and checks the inputs, reads
// blocks ahead, computes on all cores, encodes in the workers, and writes outputs that are the same
// byte for byte for any number of workers and any block size.
//
// The types to know are [Job], which describes what to do, [Block], which a function sees, and
// [Result]. A job has either a [Func] or expressions (package expr). Package outcome declares
// plans, notes, results of outputs, and errors.
//
// Controls.MemoryBytes bounds the memory whatever the size of the rasters. An output appears under
// its name only when it is complete.
//
// Two things are not promised. Outputs are not synced to the disk, so a power loss right after a
// run may destroy them. Two runs on different machines that write one file on a shared file system
// do not exclude each other: the last one wins, with a complete file.
//
// The idea, the names of many options and the order of the report come from RIOS
// (www.rioshome.org), so that its users find them familiar.
package apply
