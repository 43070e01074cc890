package cache

import "errors"

// Errors of entries.
var (
	// ErrMiss tells that a slot has no entry, or none that can be read.
	ErrMiss = errors.New("cache: no entry")
	// ErrRange tells that a slot number is below 0 or not below n.
	ErrRange = errors.New("cache: slot out of range")
	// ErrClosed tells that the Cache was closed before.
	ErrClosed = errors.New("cache: closed")
	// ErrReentrant tells that a function which fills an entry called GetOrFill.
	ErrReentrant = errors.New("cache: GetOrFill called by a fill function")
)

// Errors of making and opening caches.
var (
	// ErrFormat tells that a file is no cache, or a damaged one, or one of another version of leat.
	ErrFormat = errors.New("cache: not a cache file that can be used")
	// ErrMismatch tells that an existing cache differs from what was asked for.
	ErrMismatch = errors.New("cache: the existing cache differs")
	// ErrRemote tells that a directory lies on a file system where caches don't work.
	ErrRemote = errors.New("cache: not a local file system")
	// ErrHandle tells that a text is no handle.
	ErrHandle = errors.New("cache: not a handle")
	// ErrGone tells that the process which issued a handle has ended or closed its cache.
	ErrGone = errors.New("cache: the issuer of the handle is gone")
	// ErrForeign tells that a file or a handle belongs to another user or another machine.
	ErrForeign = errors.New("cache: another user's or machine's")
)
