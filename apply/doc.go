// Package apply runs a function over every block of rasters: it opens and checks the inputs, reads
// blocks ahead, computes on all cores, encodes in the workers, and writes outputs that are the same
// byte for byte for any number of workers and any window.
//
// The types to know are [Job], which says what to do, [Block], which a function sees, and [Result].
// A job either has a [Func] or expressions (package expr).
//
// Memory is bounded by Controls.MemoryBytes whatever the size of the rasters. An output appears under its name
// only when it is whole. What is not promised: outputs are not synced to the disk, so a power loss right
// after a run may cost them; two runs on different machines that write one file on a shared file system are
// not kept apart (the last one wins, whole).
//
// The idea, the names of many options and the order of the report come from RIOS
// (www.rioshome.org), whose users find their way here.
package apply
