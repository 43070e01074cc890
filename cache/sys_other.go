//go:build unix && !linux

package cache

import (
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Locks of open file descriptions, unnamed files and queries of holes exist on Linux only:
// elsewhere no cache can be created or opened.

const (
	unlocked  = unix.F_UNLCK
	shared    = unix.F_RDLCK
	exclusive = unix.F_WRLCK
)

func isLocal(int) bool                                { return true }
func loadsAllocate(int) bool                          { return false }
func blockSize(int) int64                             { return 1 }
func reopen(int, int) (int, error)                    { return -1, errors.ErrUnsupported }
func lock(int, int64, int16) (bool, error)            { return false, errors.ErrUnsupported }
func locked(int, int64) (bool, error)                 { return false, errors.ErrUnsupported }
func allocate(int, int64, int64) error                { return errors.ErrUnsupported }
func punch(int, int64, int64)                         {}
func dataRange(int, int64) (int64, int64, error)      { return -1, -1, errors.ErrUnsupported }
func flush(fd int) error                              { return unix.Fsync(fd) }
func fileLimit() int64                                { return math.MaxInt64 }
func pwritev(int, []byte, []byte, int64) (int, error) { return 0, errors.ErrUnsupported }
func rename(int, string, string) error                { return errors.ErrUnsupported }

func modified(*unix.Stat_t) time.Time { return time.Time{} }
