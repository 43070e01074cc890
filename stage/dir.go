//go:build unix

package stage

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leat/internal/lease"
	"leat/internal/localdir"
)

var (
	// ErrRemote tells that a directory lies on a file system that machines share, or on one that leat does not know.
	ErrRemote = errors.New("stage: not on a local file system")
	// ErrForeign tells that a directory belongs to someone else.
	ErrForeign = errors.New("stage: not this user's own")
)

// home is the rule of where stages lie.
var home = &localdir.Use{Package: "stage", Many: "stages", Shared: "objects", Make: true, Remote: ErrRemote, Foreign: ErrForeign}

// Dir is the directory in which Open("") has its stage, which is made where it is missing.
func Dir() (string, error) {
	dir, fd, err := home.Open("", false)
	if err != nil {
		return "", err
	}
	return dir, unix.Close(fd)
}

// Exists tells whether there may be a stage that Open(named) would open. It makes nothing.
func Exists(named string) bool { return localdir.Has(named, filepath.Join("stage", "index")) }

// openDir opens the folder of a stage.
func openDir(named string) (*lease.Dir, error) {
	dir, fd, err := home.Open(named, false)
	if err != nil {
		return nil, err
	}
	unix.Close(fd)
	return lease.OpenRoot(filepath.Join(dir, "stage"), localdir.Variable)
}
