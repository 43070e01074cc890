//go:build unix

package cache

import (
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/localdir"
	"leat/internal/procfile"
)

// Create creates a nameless cache of n empty slots in Options.Dir. The time and the disk space that
// it takes do not depend on n. The kernel frees the cache when the last process that has it open
// closes it or ends in any way. On a file system without unnamed files, the next Create there and
// GC remove what a killed process leaves.
func Create(n int64, opts *Options) (*Cache, error) {
	o := orDefault(opts)
	if err := o.checkCreate(n); err != nil {
		return nil, err
	}
	path, dir, err := openDir(&o)
	if err != nil {
		return nil, err
	}
	d, err := newTempFile(dir, newNamelessName)
	if err != nil {
		return nil, errors.Join(localdir.Explain(path, err), unix.Close(dir))
	}
	if err := format(d.FD, path, n, &o, flagNameless); err != nil {
		return nil, errors.Join(err, d.Discard(), unix.Close(dir))
	}
	if d.HiddenName() != "" {
		if err := sweep(dir, isNamelessName); err != nil {
			return nil, errors.Join(localdir.Explain(path, err), d.Discard(), unix.Close(dir))
		}
	}
	fault.Point("cache.formatted")
	c, err := open(d.FD, "", o, false)
	if err != nil {
		if d.HiddenName() != "" {
			_ = unlink(dir, d.HiddenName())
		}
		return nil, errors.Join(err, unix.Close(dir))
	}
	if d.HiddenName() == "" {
		return c, unix.Close(dir)
	}
	c.dir, c.hidden = dir, d.HiddenName()
	return c, nil
}

// format initializes an empty file as a cache. dir is for errors only.
func format(fd int, dir string, n int64, o *Options, flags uint32) error {
	if err := checkHost(); err != nil {
		return err
	}
	h := &header{version: version, flags: flags, n: n, maxBytes: o.MaxBytes, durability: o.Durability}
	_, _ = rand.Read(h.uuid[:])                      // never fails
	h.boot, _ = procfile.BootID()                    // zero if unknown
	if limit := fdio.FileLimit(); h.base() > limit { // writing beyond it raises a signal
		return fmt.Errorf("%d slots take a file of %d bytes, this process may write %d (ulimit -f)",
			n, h.base(), limit)
	}
	switch err := unix.Ftruncate(fd, h.base()); {
	case errors.Is(err, unix.EFBIG), errors.Is(err, unix.EINVAL):
		largest := largestFile(fd, h.base())
		return fmt.Errorf("%d slots take a file of %d bytes, the file system of %s has at most %d, for %d slots: %w",
			n, h.base(), dir, largest, max((largest-pageSize)/8, 0), err)
	case err != nil:
		return localdir.Explain(dir, err)
	}
	if err := writeFull(fd, h.encode(), 0); err != nil {
		return localdir.Explain(dir, err)
	}
	return nil
}

// largestFile returns the largest size, below a refused one, that an empty file may have.
func largestFile(fd int, refused int64) int64 {
	low := int64(0)
	for refused-low > 1 {
		if mid := low + (refused-low)/2; unix.Ftruncate(fd, mid) == nil {
			low = mid
		} else {
			refused = mid
		}
	}
	return low
}
