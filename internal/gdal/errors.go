package gdal

import (
	"fmt"
	"runtime"
	"strings"

	"leat/internal/lazyregexp"
	"leat/raster"
)

// Error is a failure reported by GDAL.
type Error struct {
	Path   string // as the caller gave it
	Op     string // "open", "read", ...
	Number int    // GDAL's CPLE_ number
	Text   string // GDAL's message
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

// Unwrap returns raster.ErrFormat, raster.ErrUnsupported or nil.
func (e *Error) Unwrap() error { return e.kind }

// GDAL's error classes and numbers.
const (
	classFailure = 3 // CE_Failure; lower ones are debug messages and warnings

	errorAppDefined   = 1
	errorOpenFailed   = 4
	errorNotSupported = 6
)

// GDAL keeps the last error, and texts that it returns, per thread. So calls whose errors matter,
// and calls that return texts, run within try or onThread, which keep the goroutine on its thread.

// try runs f, which calls GDAL and reports success, and returns the error. A failure that GDAL
// recorded is an error even if f returns true: some drivers go on with missing pixels.
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

// quietHDF5 is HDF5's H5Eset_auto2, 0 if GDAL is not linked to HDF5. HDF5 prints each failed lookup
// on every thread on which it was not silenced; netCDF silences it on one thread only.
var quietHDF5 uintptr

// onThread runs f, whose failed calls are not errors.
func onThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	c.CPLErrorReset()
}

// addressPattern matches an address in memory, as C prints it. Numbers of up to eight digits are
// addresses only where GDAL prints an open file.
var addressPattern = lazyregexp.New(`(VSIF\w+\(| on )0x[1-9a-f][0-9a-f]{5,7}\b|0x[1-9a-f][0-9a-f]{8,15}\b`)

// messageText returns GDAL's message in one line. Some drivers print the address of an open file,
// which differs in each process, and the text of an error of the system that did not happen.
func messageText(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = addressPattern.ReplaceAllStringFunc(text, func(match string) string {
		before, _, _ := strings.Cut(match, "0x")
		return before + "the file"
	})
	return strings.TrimSuffix(text, ". Success")
}

// lastError returns GDAL's last message on this thread.
func lastError(path, op string) *Error {
	e := &Error{Path: path, Op: op, Number: int(c.CPLGetLastErrorNo()), Text: messageText(c.CPLGetLastErrorMsg())}
	// The message already starts with the path.
	e.Text = strings.TrimPrefix(e.Text, path+": ")
	if !strings.HasSuffix(e.Text, "..") {
		e.Text = strings.TrimSuffix(e.Text, ".") // more text follows
	}
	switch {
	case e.Number == errorNotSupported:
		e.kind = raster.ErrUnsupported
	case e.Number == errorOpenFailed, e.Number == errorAppDefined && op == "read":
		e.kind = raster.ErrFormat
	}
	return e
}
