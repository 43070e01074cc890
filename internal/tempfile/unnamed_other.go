//go:build !linux

package tempfile

import (
	"errors"
	"io/fs"
	"os"
)

func unnamed(int, string, uint32) (int, error) { return -1, errors.ErrUnsupported }

// Link is supported on Linux only.
func Link(int, int, string) error { return errors.ErrUnsupported }

func createUnnamed(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func link(int, string) error { return errors.ErrUnsupported }
