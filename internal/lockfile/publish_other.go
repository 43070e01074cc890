//go:build unix && !linux

package lockfile

import "errors"

func (d *Dir) unnamed(uint32) (int, error) { return -1, errors.ErrUnsupported }

func linkUnnamed(int, int, string) error { return errors.ErrUnsupported }
