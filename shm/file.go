//go:build unix

package shm

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/backoff"
	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/localdir"
	"leat/internal/lockfile"
)

// patiently repeats f while it returns EWOULDBLOCK, for about 0.4 s: children that are being
// started keep locks for a moment, longer on a busy machine.
func patiently(f func() error) error {
	for pause := (backoff.Backoff{Next: 50 * time.Microsecond}); ; pause.Sleep() {
		err := f()
		if !errors.Is(err, unix.EWOULDBLOCK) || pause.Next > 400*time.Millisecond {
			return err
		}
		fault.Point("shm.waiting")
	}
}

// readFull reads len(b) bytes.
func readFull(fd int, b []byte, at int64) error {
	n, err := fdio.ReadFull(fd, b, at)
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	if n < len(b) {
		return fmt.Errorf("%w: file is cut short", errHandle)
	}
	return nil
}

// lockByte sets a lock on the first byte: writers share it, whoever seals the array excludes them.
// Systems without locks of open files do not count writers.
func lockByte(fd int, kind int16) (bool, error) {
	ok, err := fdio.Lock(fd, kind, 0, 1)
	if errors.Is(err, errors.ErrUnsupported) {
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("locking: %w", err)
	}
	return ok, err
}

// inMemory reports whether the file system of a directory keeps its files in memory.
func inMemory(d *lockfile.Dir) bool {
	name := localdir.Of(d.Fd()).Name
	return name == "tmpfs" || name == "ramfs"
}

// processGone reports whether no process has that id.
func processGone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// descriptorLimit returns half of the descriptors that the process may have.
func descriptorLimit() int {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil {
		return 512
	}
	return int(min(lim.Cur, 1<<20) / 2)
}

// errNoMemfd is returned if the system has no memfd, or the process no descriptor to spare; another
// place may do.
var errNoMemfd = errors.New("no memfd")

var errSealedArray = fmt.Errorf("%w: expected mode r or c", errSealed)

// mem returns the memory of a segment and removes it from it: a later use panics instead of reading
// wrong numbers.
func mem(seg *segment) []byte {
	m := seg.mem
	seg.mem = nil
	return m
}

func mapError(size int64, err error) error {
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("%w: mapping %d bytes (limits: ulimit -v, vm.max_map_count): %w", ErrNoSpace, size, err)
	}
	return fmt.Errorf("mapping %d bytes: %w", size, err)
}
