//go:build unix

package index

import (
	"errors"
	"fmt"
	"slices"
)

// RemoveError is returned for an object whose bytes can't be freed. It can't be found any more, and
// its space stays counted until a later eviction frees it.
type RemoveError struct {
	Object string // source and name, without secrets
	Err    error
}

func (e *RemoveError) Error() string { return fmt.Sprintf("removing %s: %v", e.Object, e.Err) }

// Unwrap returns Err.
func (e *RemoveError) Unwrap() error { return e.Err }

// failures are the objects whose bytes an eviction could not free. nil has none.
type failures struct {
	all     bool // the eviction goes on after each
	list    []*RemoveError
	records map[uint32]struct{}
}

// note adds a marked object for which remove returned err. It reports whether the eviction goes on:
// if not all, only after an object that could not be found before, so that one that can never be
// freed ends one eviction and not each.
func (f *failures) note(m marked, err error) (goOn bool) {
	free := new(RemoveError)
	if f == nil || !errors.As(err, &free) || !f.all && byte(m.seq) == stateValid {
		return false
	}
	f.list = append(f.list, free)
	if f.records == nil {
		f.records = map[uint32]struct{}{}
	}
	f.records[m.rec] = struct{}{}
	return true
}

// leaveOut returns the candidates without those that failed.
func (f *failures) leaveOut(found []candidate) []candidate {
	if len(f.records) == 0 {
		return found
	}
	return slices.DeleteFunc(found, func(c candidate) bool {
		_, failed := f.records[c.rec]
		return failed
	})
}
