package cache

import "errors"

// Errors of entries.
var (
	// ErrMiss is returned for a slot without an entry, or whose entry can't be read.
	ErrMiss = errors.New("no entry")
	// errRange is returned for a slot number outside 0 to n-1.
	errRange = errors.New("slot out of range")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("cache is closed")
	// errReentrant is returned by GetOrFill when a fill function calls it.
	errReentrant = errors.New("GetOrFill called by a fill function")
)

// Errors of creating and opening caches.
var (
	// ErrFormat is returned for a file that is not a cache, is damaged, or has another version.
	ErrFormat = errors.New("not a usable cache file")
	// ErrMismatch is returned when an existing cache differs from the requested one.
	ErrMismatch = errors.New("the existing cache differs")
	// ErrCurrent is returned by Upgrade for a cache of the current version of the format.
	ErrCurrent = errors.New("already of the current version")
	// ErrRemote is returned for a directory on a file system where caches don't work.
	ErrRemote = errors.New("not a local file system")
	// errHandle is returned for a string that is not a handle.
	errHandle = errors.New("not a handle")
	// ErrGone is returned when the process that issued a handle has ended or closed its cache.
	ErrGone = errors.New("the issuer of the handle is gone")
	// ErrForeign is returned for a file or handle of another user or machine.
	ErrForeign = errors.New("not owned by this user on this machine")
)
