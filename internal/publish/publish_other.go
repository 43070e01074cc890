//go:build !linux

package publish

import (
	"errors"
	"io/fs"
	"os"
)

// createUnnamed is for kernels that have files without names.
func createUnnamed(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func link(*os.File, string) error { return errors.ErrUnsupported }
