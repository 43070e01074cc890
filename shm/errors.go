package shm

import "errors"

// Errors of making arrays.
var (
	// ErrNoSpace is returned when no place has space for an array; the message says what is needed,
	// what is free, and where.
	ErrNoSpace = errors.New("no shared memory left")
	// errNotShared is returned for a view of memory that is not shared.
	errNotShared = errors.New("not shared memory")
)

// Errors of attaching.
var (
	// errHandle is returned for text that is not a handle or does not match its array.
	errHandle = errors.New("invalid handle")
	// ErrStale is returned when an array was freed, or its process ended.
	ErrStale = errors.New("the array is gone")
	// ErrForeign is returned for handles of another host or boot, and for files of another user.
	ErrForeign = errors.New("a handle of another host or user")
	// errSealed is returned when an array that is read-only is to be attached for writing.
	errSealed = errors.New("sealed")
	// ErrWriters is returned when an array is to be sealed that other processes have attached for
	// writing.
	ErrWriters = errors.New("attached for writing")
	// errOutsideRoots is returned for a user's file outside the directories in Options.Roots.
	errOutsideRoots = errors.New("a file outside the allowed directories")
)

// ErrClosed is returned by uses of a Pool, Scope or Array after its Close.
var ErrClosed = errors.New("closed")
