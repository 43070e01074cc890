package gdal

import (
	"fmt"
	"runtime"
	"strings"

	"leat/raster"
)

// Error is a failure that GDAL told of.
type Error struct {
	Path   string // as the caller gave it
	Op     string // "open", "read", ...
	Number int    // GDAL's CPLE_ number
	Text   string // GDAL's own words
	kind   error
}

func (e *Error) Error() string {
	text := e.Text
	if text == "" {
		text = "no reason given"
	}
	s := fmt.Sprintf("%s: GDAL can't %s: %s", e.Path, e.Op, text)
	if e.kind != nil {
		s += " (" + e.kind.Error() + ")"
	}
	return s
}

// Unwrap gives raster.ErrFormat or raster.ErrUnsupported where one of them holds.
func (e *Error) Unwrap() error { return e.kind }

// GDAL's classes and numbers of errors.
const (
	classFailure = 3 // CE_Failure; below are debug messages and warnings

	errorAppDefined   = 1
	errorOpenFailed   = 4
	errorNotSupported = 6
)

// GDAL keeps the last error, and texts that it returns, by thread. So all calls whose errors count, and those that return texts, run between
// these two: the goroutine stays on its thread meanwhile.

// try runs f, which calls GDAL and says whether that went well, and returns what went wrong. A failure that GDAL noted counts even if f
// is content: some drivers go on after one with pixels that are not there.
func try(path, op string, f func() bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if quietHDF5 != 0 && op != "read" {
		call(quietHDF5, 0, 0, 0)
	}
	c.CPLErrorReset()
	if ok := f(); ok && c.CPLGetLastErrorType() < classFailure {
		return nil
	}
	return lastError(path, op)
}

// quietHDF5 is HDF5's H5Eset_auto2, 0 where GDAL is not linked to it. HDF5 prints all that it looks for in vain, on each thread that has not told it to be silent;
// netCDF does that on one.
var quietHDF5 uintptr

// onThread runs f, whose calls may fail without that meaning anything.
func onThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	c.CPLErrorReset()
}

// lastError is what GDAL said last on this thread.
func lastError(path, op string) *Error {
	e := &Error{Path: path, Op: op, Number: int(c.CPLGetLastErrorNo()), Text: strings.Join(strings.Fields(c.CPLGetLastErrorMsg()), " ")}
	// The path stands before the message already.
	e.Text = strings.TrimPrefix(e.Text, path+": ")
	if !strings.HasSuffix(e.Text, "..") {
		e.Text = strings.TrimSuffix(e.Text, ".") // more follows
	}
	switch {
	case e.Number == errorNotSupported:
		e.kind = raster.ErrUnsupported
	case e.Number == errorOpenFailed, e.Number == errorAppDefined && op == "read":
		e.kind = raster.ErrFormat
	}
	return e
}
