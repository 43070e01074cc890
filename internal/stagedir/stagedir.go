//go:build unix

// Package stagedir finds the directories of stages.
package stagedir

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leat/internal/localdir"
	"leat/internal/lockfile"
)

var (
	// errRemote is returned for a directory on a network file system, or on one of an unknown type.
	errRemote = errors.New("not on a local file system")
	// errForeign is returned for a directory that belongs to another user.
	errForeign = errors.New("not this user's own")
)

// location defines where stages are.
var location = &localdir.Use{Many: "stages", Shared: "objects", Remote: errRemote, Foreign: errForeign}

// Default returns the directory of the stage that stage.Open opens for "", and creates it if it is
// missing.
func Default() (string, error) {
	dir, fd, err := location.Open("", false)
	if err != nil {
		return "", err
	}
	return dir, unix.Close(fd)
}

// Exists reports whether there may be a stage in the directory that stage.Open would use. It
// creates nothing.
func Exists(named string) bool { return localdir.Has(named, filepath.Join("stage", "index")) }

// Open opens the directory of a stage and creates it if it is missing.
func Open(named string) (*lockfile.Dir, error) {
	dir, fd, err := location.Open(named, false)
	if err != nil {
		return nil, err
	}
	unix.Close(fd)
	return lockfile.OpenRoot(filepath.Join(dir, "stage"), "")
}
