package shm

import (
	"errors"

	"leat/internal/npy"
)

// Errors of making arrays.
var (
	// ErrNoSpace is returned when no place has space for an array; the text names what is needed,
	// what is free, and where.
	ErrNoSpace = errors.New("no shared memory left")
	// ErrNotShared is returned for a view of memory that is not shared.
	ErrNotShared = errors.New("not shared memory")
	// ErrUnsupported is returned for elements that can't be shared.
	ErrUnsupported = npy.ErrUnsupported
)

// Errors of attaching.
var (
	// ErrHandle is returned for text that is not a handle or does not match its array.
	ErrHandle = errors.New("invalid handle")
	// ErrStale is returned when an array was freed, or its process ended.
	ErrStale = errors.New("the array is gone")
	// ErrForeign is returned for handles of another host or boot, and for files of another user.
	ErrForeign = errors.New("a handle of another host or user")
	// ErrSealed is returned when an array that is read-only is to be attached for writing.
	ErrSealed = errors.New("sealed")
	// ErrWriters is returned when an array is to be sealed that other processes have attached for
	// writing.
	ErrWriters = errors.New("attached for writing")
	// ErrOutsideRoots is returned for a user's file outside the directories in Options.Roots.
	ErrOutsideRoots = errors.New("a file outside the allowed directories")
)

// ErrClosed is returned by uses of a Pool, Scope or Array after its Close.
var ErrClosed = errors.New("closed")
