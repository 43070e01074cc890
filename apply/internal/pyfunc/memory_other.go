//go:build !linux

package pyfunc

import (
	"fmt"
	"runtime"
)

func newOutputMemory(int64) (*outputMemory, error) {
	return nil, fmt.Errorf("Python functions are not supported on %s, which has no files in memory", runtime.GOOS)
}
