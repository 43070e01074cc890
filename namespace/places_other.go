//go:build !linux

package namespace

import (
	"errors"
	"fmt"
)

func openPlace(path string) (*place, error) {
	return nil, fmt.Errorf("%s: directories can be claimed on Linux only: %w", path, errors.ErrUnsupported)
}

func openFilePlace(path string) (*place, error) {
	return nil, fmt.Errorf("%s: files can be claimed on Linux only: %w", path, errors.ErrUnsupported)
}

// Close does nothing: there are no places here.
func (p *place) Close() error { return nil }
