package shm

import "errors"

// Errors of making arrays.
var (
	// ErrNoRoom tells that no place has room for an array; the text names what is needed, what is
	// free, and where.
	ErrNoRoom = errors.New("no shared memory left")
	// ErrNotShared tells that a view does not lie in memory that is shared.
	ErrNotShared = errors.New("not shared memory")
)

// Errors of attaching. A text that is no handle at all, or does not fit its object, is [ErrHandle].
var (
	// ErrStale tells that an array is no more: it was freed, or its process is gone.
	ErrStale = errors.New("the array is gone")
	// ErrForeign tells that a handle comes from another host or boot, or leads to what is not this
	// user's.
	ErrForeign = errors.New("a handle of another host or user")
	// ErrSealed tells that an array can only be read, and was to be attached for writing.
	ErrSealed = errors.New("array is sealed")
	// ErrWriters tells that an array can't be sealed while other processes have it attached for
	// writing.
	ErrWriters = errors.New("array is attached for writing")
	// ErrRoot tells that a user's file lies below none of the folders in [Options].Roots.
	ErrRoot = errors.New("a file outside the allowed folders")
)

// ErrClosed tells that the Pool, Scope or Array was closed before.
var ErrClosed = errors.New("shared memory is closed")
