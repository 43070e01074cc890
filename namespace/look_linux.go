package namespace

import (
	"errors"

	"golang.org/x/sys/unix"
)

// lookPlace finds the place of a directory or file of another job. It makes nothing.
func lookPlace(path string, file bool) (*place, error) {
	if file {
		return openFilePlace(path)
	}
	abs, err := absolute(path)
	if err != nil {
		return nil, err
	}
	fd, err := openDir(unix.AT_FDCWD, abs)
	if err != nil {
		return nil, explainPlace(path, err)
	}
	p := &place{Path: abs, fd: fd}
	if err := p.climb(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}
