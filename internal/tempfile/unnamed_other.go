//go:build !linux

package tempfile

import (
	"errors"
	"io/fs"
	"os"
)

// Unnamed is supported on Linux only.
func Unnamed(int, uint32) (int, error) { return -1, errors.ErrUnsupported }

// Link is supported on Linux only.
func Link(int, int, string) error { return errors.ErrUnsupported }

func createUnnamed(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func link(int, string) error { return errors.ErrUnsupported }
