//go:build !linux

package geotiff

import (
	"errors"
	"os"
)

// copyRange is for kernels that copy between files by themselves.
func copyRange(*os.File, int64, *os.File, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}
