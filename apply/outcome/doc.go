// Package outcome declares what jobs of package apply return: plans, results, notes, and the errors
// that callers recognize with errors.As and errors.Is. Errors are the same for a block that this
// process computes and for one that a worker process computes.
//
// A run that failed at a block is a [BlockError]. If its finished blocks were kept, an
// [IncompleteError] wraps that. An error of the job itself is a [JobError], and a [FieldError] in
// it names the field that is wrong.
//
// Package apply and its parts share these types, and so they are declared below it.
package outcome

import "errors"

// Sentinels of a job's inputs and outputs.
var (
	// ErrNotGeoreferenced is returned for a raster that must be warped and has no position.
	ErrNotGeoreferenced = errors.New("not georeferenced")
	// ErrNoCRS is returned for a raster that must be warped and has no coordinate reference system.
	ErrNoCRS = errors.New("no coordinate reference system")
	// ErrBeingWritten is returned for an input that is incomplete since another process writes it.
	ErrBeingWritten = errors.New("being written to")
	// ErrInUse is returned for an output that another run of leat writes.
	ErrInUse = errors.New("being written by another run of leat")
	// ErrVectors is returned for a file of vectors where a raster is expected.
	ErrVectors = errors.New("it holds vectors, not pixels")
	// ErrNotSpool is returned if the file of an unfinished output is something else.
	ErrNotSpool = errors.New("it is not an unfinished output of leat")
)
