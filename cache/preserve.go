//go:build unix

package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/procfile"
	"leat/internal/tempfile"
)

// Preserve makes the cache final and links its file as name, from which Load opens it. It freezes
// the cache for all processes, waits for running puts, verifies all entries and flushes the file to
// the disk. Damaged entries become empty; dropped is their number in this call. Nothing is copied
// if name is on the same file system, and no process has to close the cache. An existing name is
// fs.ErrExist, unless overwrite is true: then it is replaced atomically.
//
// Errors of the name or its directory are returned before the cache is frozen. Later errors,
// including the cause of ctx, leave it frozen with all readable entries, and Preserve may be called
// again. An entry that can't be read because of a disk error, not damage, is such an error. Damaged
// entries may be empty by then even if dropped does not include them; the next call does not count
// them again.
func (c *Cache) Preserve(ctx context.Context, name string, overwrite bool) (dropped int64, err error) {
	if !c.drainGate.enter(0) {
		return 0, ErrClosed
	}
	defer c.drainGate.leave(0)
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	abs, base, dir, err := splitPath(name)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	if err := checkTarget(dir, abs, base, overwrite); err != nil {
		return 0, err
	}
	if !c.readOnly {
		release, err := c.freeze(ctx)
		if err != nil {
			return 0, err
		}
		defer release()
		if dropped, err = c.sealFile(ctx); err != nil {
			return dropped, err
		}
	}
	if err := c.nameFile(ctx, dir, abs, base, overwrite); err != nil {
		return dropped, err
	}
	// A process that opens a sealed file can't remove its hidden name on Close, so remove it now.
	if c.hidden != "" && tempfile.Leads(c.dir, c.hidden, c.fd) {
		if err := unlink(c.dir, c.hidden); err != nil {
			return dropped, err
		}
	}
	return dropped, flushDir(dir, abs)
}

// checkTarget returns an error if no file can be created at path, which it tries with a temporary
// file.
func checkTarget(dir int, path, name string, overwrite bool) error {
	if err := checkName(path, name); err != nil {
		return err
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fmt.Errorf("%s: is a directory, expected a file", path)
	case err == nil && !overwrite:
		return taken(path)
	case err != nil && !errors.Is(err, unix.ENOENT):
		return explainOpen(path, err)
	}
	d, err := newTempFile(dir, func() string { return newTempName(name) })
	if err != nil {
		return explainCreate(path, err)
	}
	return d.Discard()
}

// explainCreate adds the path to an error of creating or writing a file.
func explainCreate(path string, err error) error {
	if errors.Is(err, unix.EFBIG) {
		err = fmt.Errorf("larger than this process (ulimit -f) or the file system allows: %w", err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// flushDir flushes an open directory, with the name of path, to the disk.
func flushDir(dir int, path string) error {
	err := fault.Error("cache.flush names")
	if err == nil {
		err = unix.Fsync(dir)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("flushing the directory of %s: %w", path, err)
	}
	return nil
}

func taken(path string) error {
	return fmt.Errorf("%s: %w", path, fs.ErrExist)
}

// sealFile verifies all entries, writes the seal and flushes it to the disk. No put may run.
func (c *Cache) sealFile(ctx context.Context) (dropped int64, err error) {
	if _, ok := c.seal(); !ok {
		rep, sum, err := c.examine(ctx, func(i, offset int64) error {
			faulted, err := c.guard(func() error {
				_, err := c.swapSlot(i, offset, 0)
				return err
			})
			if faulted {
				return c.errCut()
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		dropped = rep.Bad
		s := seal{entries: rep.FilledSlots, index: sum}
		if faulted, _ := c.guard(func() error { s.tail = int64(c.tail.Load() &^ frozen); return nil }); faulted {
			return dropped, c.errCut()
		}
		if err := c.flush(); err != nil {
			return dropped, err
		}
		fault.Point("cache.sealing")
		if err := writeFull(c.fd, s.encode(c.sums), sealAt); err != nil {
			return dropped, fmt.Errorf("sealing %s: %w", c.name(), err)
		}
	}
	if err := c.flush(); err != nil {
		return dropped, err
	}
	fault.Point("cache.sealed")
	return dropped, nil
}

// errCut returns the error for a mapping that faults unexpectedly.
func (c *Cache) errCut() error {
	return fmt.Errorf("%s can't be read: truncated, or the disk failed", c.name())
}

// nameFile links the file as name, or copies it if it can't be linked: on another file system, or
// when all of its names were removed.
func (c *Cache) nameFile(ctx context.Context, dir int, path, name string, overwrite bool) error {
	_ = sweep(dir, tempsOf(name)) // what can't be swept does no harm
	temp := name
	if overwrite { // linkat does not replace: use a temporary name first
		temp = tempName(name, c.h.uuid)
	}
	err := c.linkTo(dir, temp, overwrite)
	switch {
	case errors.Is(err, fs.ErrExist):
		return taken(path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EXDEV), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.EMLINK), errors.Is(err, unix.EOPNOTSUPP):
		return publish(dir, path, name, overwrite, func(fd int) error { return c.copyFile(ctx, fd) })
	case err != nil:
		return explainCreate(path, err)
	}
	fault.Point("cache.linked")
	if overwrite {
		return replace(dir, path, temp, name)
	}
	return nil
}

// linkTo links the file as name. If mayBe is set, the name may be left from a killed process.
func (c *Cache) linkTo(dir int, name string, mayBe bool) error {
	err := tempfile.Link(c.fd, dir, name)
	if mayBe && errors.Is(err, fs.ErrExist) && tempfile.Leads(dir, name, c.fd) {
		return nil
	}
	return err
}

// replace renames temp to name and then removes temp, since a rename between two names of the same
// file does nothing.
func replace(dir int, path, temp, name string) error {
	err := unix.Renameat(dir, temp, dir, name)
	if err != nil {
		return errors.Join(explainCreate(path, err), unlink(dir, temp))
	}
	fault.Point("cache.renamed")
	return unlink(dir, temp)
}

// publish creates a file, calls fill to write it, flushes it, and links it as name. The caller
// flushes the directory.
func publish(dir int, path, name string, overwrite bool, fill func(fd int) error) (err error) {
	d, err := newTempFile(dir, func() string { return newTempName(name) })
	if err != nil {
		return explainCreate(path, err)
	}
	defer func() { err = errors.Join(err, d.Discard()) }()
	if err = fill(d.FD); err == nil {
		if err = fault.Error("cache.flush copy"); err == nil {
			err = flush(d.FD)
		}
	}
	if err != nil {
		return explainCreate(path, err)
	}
	fault.Point("cache.copied")
	if !overwrite {
		err := d.Publish(name)
		if errors.Is(err, fs.ErrExist) {
			return taken(path)
		} else if err != nil {
			return explainCreate(path, err)
		}
		return nil
	}
	temp := d.HiddenName()
	if temp == "" {
		temp = newTempName(name)
		if err := d.Publish(temp); err != nil {
			return explainCreate(path, err)
		}
		fault.Point("cache.linked")
	}
	return replace(dir, path, temp, name)
}

// copyFile copies the file, keeping holes, as a cache with an identity of its own.
func (c *Cache) copyFile(ctx context.Context, to int) error {
	var st unix.Stat_t
	if err := unix.Fstat(c.fd, &st); err != nil {
		return err
	}
	if st.Size > fdio.FileLimit() { // writing beyond it raises a signal
		return unix.EFBIG
	}
	if err := unix.Ftruncate(to, st.Size); err != nil {
		return err
	}
	b := make([]byte, 1<<20)
	for at := int64(0); at < st.Size; {
		from, end, err := dataRange(c.fd, at)
		if err != nil {
			from, end = at, st.Size
		}
		if from < 0 {
			break
		}
		for at = from; at < end; {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n, err := fdio.ReadFull(c.fd, b[:min(int64(len(b)), end-at)], at)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%s was truncated during the copy", c.name())
			}
			if err := writeFull(to, b[:n], at); err != nil {
				return err
			}
			at += int64(n)
		}
	}
	h := c.h
	_, _ = rand.Read(h.uuid[:])
	h.boot, _ = procfile.BootID()
	return writeFull(to, h.encode()[:fixedSize+4], 0)
}
