//go:build !linux

package pyfunc

import "errors"

func openProcess(int) (int, error) { return -1, errors.ErrUnsupported }

func canAwaitForked() bool { return false }
