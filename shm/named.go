//go:build unix

package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

const (
	protRead   = unix.PROT_READ
	protWrite  = unix.PROT_READ | unix.PROT_WRITE
	mapShared  = unix.MAP_SHARED
	mapPrivate = unix.MAP_PRIVATE

	// The roots of named arrays in handles.
	rootRun  = "run" // lockfile.RootPath, in memory where there is a /dev/shm
	rootTemp = "tmp" // the temporary directory

	// arraysDir is the directory of arrays in both roots.
	arraysDir = "shm"
	// sweepNames bounds the names that are swept whenever a named array is made.
	sweepNames = 8
)

// errNoPlace is returned when a place cannot be used at all; another one may do.
var errNoPlace = errors.New("no memory or directory for arrays")

func rootOf(p Place) string {
	if p == Temp {
		return rootTemp
	}
	return rootRun
}

func fileName(id ident) string { return id.String() + ".npy" }

// rootPath returns the directory of a root.
func rootPath(root, temp string) string {
	if root == rootRun {
		return lockfile.RootPath()
	}
	if temp == "" {
		temp = os.Getenv(tempVariable)
	}
	if temp == "" {
		temp = os.TempDir()
	}
	return filepath.Join(temp, "leat-"+strconv.Itoa(os.Geteuid()))
}

// openDir opens the directory of arrays below a root, and the root, whose lock keeps cleaners of
// /tmp away. With create it makes them.
func openDir(root, temp string, create bool) (top, d *lockfile.Dir, err error) {
	path := rootPath(root, temp)
	if !create && filepath.IsAbs(path) { // OpenRoot refuses relative ones
		if _, err := os.Lstat(path); err != nil {
			return nil, nil, err
		}
	}
	variable := lockfile.RootVariable
	if root == rootTemp {
		variable = tempVariable
	}
	top, err = lockfile.OpenRoot(path, variable)
	if err != nil {
		return nil, nil, fmt.Errorf("directory for arrays: %w", err)
	}
	if create {
		d, err = top.MakeSub(arraysDir)
	} else {
		d, err = top.OpenSub(arraysDir)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("directory for arrays: %w", err), top.Close())
	}
	return top, d, nil
}

// dir returns the directory of a root, which the Pool keeps open.
func (s *Pool) dir(root string) (*lockfile.Dir, error) {
	s.dirMu.Lock()
	defer s.dirMu.Unlock()
	if s.dirClosed {
		return nil, ErrClosed
	}
	if d := s.dirs[root]; d != nil {
		if !d.Gone() {
			return d, nil
		}
		s.oldDirs = append(s.oldDirs, d) // arrays in it may still be open
	}
	top, d, err := openDir(root, s.opts.TempDir, true)
	if err != nil {
		return nil, err
	}
	s.oldDirs = append(s.oldDirs, top)
	s.dirs[root] = d
	return d, nil
}

func (s *Pool) closeDirs() error {
	s.dirMu.Lock()
	defer s.dirMu.Unlock()
	s.dirClosed = true
	var err error
	for _, d := range s.dirs {
		err = errors.Join(err, d.Close())
	}
	for _, d := range s.oldDirs {
		err = errors.Join(err, d.Close())
	}
	s.dirs, s.oldDirs = nil, nil
	return err
}

// makeReadOnly lets processes open a file for reading only from now on.
func makeReadOnly(h *lockfile.Lock) error {
	if err := unix.Fchmod(h.Fd(), 0o400); err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	return nil
}
