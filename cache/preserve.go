//go:build unix

package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/procfile"
)

// Preserve makes the cache final and gives its file a name, from which Load opens it: it freezes it for all processes, waits
// for puts in flight, verifies all entries (damaged ones become empty; dropped is how many did in this call), flushes everything to the disk, and links the file. Nothing is
// copied where the name lies on the same file system; no process has to close the cache before or after. A name that is taken is fs.ErrExist, unless
// overwrite is true: then what had it is replaced in one step.
//
// What is wrong with the name or its directory is told before the cache is frozen. Later errors, the end of ctx among them, leave it frozen, with all
// entries that can be read, and Preserve may be called again. An entry that can't be read at all (an error of the disk, not damage) is such an error. Entries that were damaged may have
// become empty by then, whatever dropped is beside the error; the next call does not tell them again.
func (c *Cache) Preserve(ctx context.Context, name string, overwrite bool) (dropped int64, err error) {
	if !c.gate.enter(0) {
		return 0, ErrClosed
	}
	defer c.gate.leave(0)
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
	// Who opens a sealed file can't remove a hidden name when it is the last to close: it must not have one any more.
	if c.hidden != "" && leads(c.dir, c.hidden, c.fd) {
		if err := unlink(c.dir, c.hidden); err != nil {
			return dropped, err
		}
	}
	return dropped, flushDir(dir, abs)
}

// checkTarget tells whether a file can be made with a name, by making one without. It leaves nothing.
func checkTarget(dir int, path, name string, overwrite bool) error {
	if err := ordinaryName(path, name); err != nil {
		return err
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fmt.Errorf("cache: %s is a directory: give the name of a file in it", path)
	case err == nil && !overwrite:
		return taken(path)
	case err != nil && !errors.Is(err, unix.ENOENT):
		return explainOpen(path, err)
	}
	d, err := newDraft(dir, func() string { return newDraftName(name) })
	if err != nil {
		return explainMaking(path, err)
	}
	return d.drop()
}

// explainMaking says what is wrong where a file can't be made or written.
func explainMaking(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, unix.ENOENT): // the directory is open
		return fmt.Errorf("cache: no file can be made in %s: name another directory (%w)", dir, err)
	case errors.Is(err, unix.EFBIG):
		return fmt.Errorf("cache: %s would be larger than this process may write (ulimit -f), or than its file system takes: raise the limit, or name another directory (%w)", path, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOTDIR):
		return explainDir(dir, err)
	}
	return fmt.Errorf("cache: %s: %w", path, err)
}

// flushDir brings the names in an open directory to the disk, that of path among them.
func flushDir(dir int, path string) error {
	err := fault.Error("cache.flush names")
	if err == nil {
		err = unix.Fsync(dir)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("cache: flushing the directory of %s: %w", path, err)
	}
	return nil
}

func taken(path string) error {
	return fmt.Errorf("cache: %s exists: give another name, or overwrite it (%w)", path, fs.ErrExist)
}

// sealFile verifies everything, writes the seal and brings it to the disk. Nobody puts meanwhile.
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
		s := seal{entries: rep.Filled, index: sum}
		if faulted, _ := c.guard(func() error { s.tail = int64(c.tail.Load() &^ frozen); return nil }); faulted {
			return dropped, c.errCut()
		}
		if err := c.flush(); err != nil {
			return dropped, err
		}
		fault.Point("cache.sealing")
		if err := writeFull(c.fd, s.encode(), sealAt); err != nil {
			return dropped, fmt.Errorf("cache: sealing %s: %w", c.name(), err)
		}
	}
	if err := c.flush(); err != nil {
		return dropped, err
	}
	fault.Point("cache.sealed")
	return dropped, nil
}

// errCut is what a mapping that faults where it never should tells.
func (c *Cache) errCut() error {
	return fmt.Errorf("cache: %s can't be read: it was cut off, or its disk fails", c.name())
}

// nameFile gives the file a name, or a copy of it where it can't have it: on another file system, or when all of its names were
// removed, after which the kernel gives it none.
func (c *Cache) nameFile(ctx context.Context, dir int, path, name string, overwrite bool) error {
	_, _ = sweep(dir, draftsOf(name)) // what can't be swept does no harm
	temp := name
	if overwrite { // linkat replaces nothing: another name first
		temp = draftName(name, c.h.uuid)
	}
	err := c.linkTo(dir, temp, overwrite)
	switch {
	case errors.Is(err, fs.ErrExist):
		return taken(path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EXDEV), errors.Is(err, unix.EPERM), errors.Is(err, unix.EMLINK), errors.Is(err, unix.EOPNOTSUPP):
		return publish(dir, path, name, overwrite, func(fd int) error { return c.copyFile(ctx, fd) })
	case err != nil:
		return explainMaking(path, err)
	}
	fault.Point("cache.linked")
	if overwrite {
		return replace(dir, path, temp, name)
	}
	return nil
}

// linkTo links the file; its own temporary name, left by a killed process, may be there.
func (c *Cache) linkTo(dir int, name string, mayBe bool) error {
	err := link(c.fd, dir, name)
	if mayBe && errors.Is(err, fs.ErrExist) && leads(dir, name, c.fd) {
		return nil
	}
	return err
}

// replace renames temp to name. A rename onto another name of the same file does nothing, not even that.
func replace(dir int, path, temp, name string) error {
	err := rename(dir, temp, name)
	if err != nil {
		return errors.Join(explainMaking(path, err), unlink(dir, temp))
	}
	fault.Point("cache.renamed")
	return unlink(dir, temp)
}

// publish makes a file that fill writes, brings it to the disk and gives it its name when it is whole. The name is on the disk after flushDir.
func publish(dir int, path, name string, overwrite bool, fill func(fd int) error) (err error) {
	d, err := newDraft(dir, func() string { return newDraftName(name) })
	if err != nil {
		return explainMaking(path, err)
	}
	defer func() { err = errors.Join(err, d.drop()) }()
	if err = fill(d.fd); err == nil {
		if err = fault.Error("cache.flush copy"); err == nil {
			err = flush(d.fd)
		}
	}
	if err != nil {
		return explainMaking(path, err)
	}
	fault.Point("cache.copied")
	if !overwrite {
		err := d.name(name)
		if errors.Is(err, fs.ErrExist) {
			return taken(path)
		} else if err != nil {
			return explainMaking(path, err)
		}
		return nil
	}
	temp := d.hidden
	if temp == "" {
		temp = newDraftName(name)
		if err := d.name(temp); err != nil {
			return explainMaking(path, err)
		}
		fault.Point("cache.linked")
	}
	d.hidden = ""
	return replace(dir, path, temp, name)
}

// copyFile copies the file, its holes as holes, as a cache of its own.
func (c *Cache) copyFile(ctx context.Context, to int) error {
	var st unix.Stat_t
	if err := unix.Fstat(c.fd, &st); err != nil {
		return err
	}
	if st.Size > fileLimit() { // to try is a signal
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
			n, err := preadFull(c.fd, b[:min(int64(len(b)), end-at)], at)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%s was cut off while it was copied", c.name())
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
