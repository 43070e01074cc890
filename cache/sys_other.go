//go:build unix && !linux

package cache

import "errors"

// Locks of open file descriptions, unnamed files and queries of holes exist on Linux only:
// elsewhere no cache can be created or opened.

func blockSize(int) int64                             { return 1 }
func allocate(int, int64, int64) error                { return errors.ErrUnsupported }
func punch(int, int64, int64)                         {}
func dataRange(int, int64) (int64, int64, error)      { return -1, -1, errors.ErrUnsupported }
func monotonic() int64                                { return 0 }
func flush(int) error                                 { return errors.ErrUnsupported }
func pwritev(int, []byte, []byte, int64) (int, error) { return 0, errors.ErrUnsupported }
