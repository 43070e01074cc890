// Package spool collects the results of a run's blocks until an output can be laid out, so that a
// run that fails or is killed can be resumed.
//
// An [Encoder] turns a block of an output into a [Record]: encoded tiles, pixels of overviews,
// statistics and histograms. A [Spool] appends records to a [File], makes overview tiles, and lets
// a [Chooser] choose the coding from samples. A resumed run reads the file's [Header] and restores
// its records with [Spool.Scan]. docs/format/spool.md describes the file.
//
// A spool survives a process that is killed at any moment. It is not flushed to the disk, so it may
// be lost with the machine's power, and its locks exclude runs on other machines only where the
// file system's flock does.
package spool
