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
// for puts in flight, verifies all entries (damaged ones become empty), flushes everything to the disk, and links the file. Nothing is
// copied where the name lies on the same file system; no process has to close the cache before or after. A name that is taken is fs.ErrExist, unless
// overwrite is true: then what had it is replaced in one step.
func (c *Cache) Preserve(name string, overwrite bool) error {
	if !c.gate.enter(0) {
		return ErrClosed
	}
	defer c.gate.leave(0)
	abs, base, dir, err := splitPath(name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fmt.Errorf("cache: %s is a directory: give the name of a file in it", abs)
	case err == nil && !overwrite:
		return taken(abs)
	}
	if !c.readOnly {
		release, err := c.freeze()
		if err != nil {
			return err
		}
		defer release()
		if err := c.sealFile(); err != nil {
			return err
		}
	}
	if err := c.nameFile(dir, abs, base, overwrite); err != nil {
		return err
	}
	// Who opens a sealed file can't remove a hidden name when it is the last to close: it must not have one any more.
	if c.hidden != "" && leads(c.dir, c.hidden, c.fd) {
		if err := unlink(c.dir, c.hidden); err != nil {
			return err
		}
	}
	if err := unix.Fsync(dir); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("cache: flushing the directory of %s: %w", abs, err)
	}
	return nil
}

func taken(path string) error {
	return fmt.Errorf("cache: %s exists: give another name, or overwrite it (%w)", path, fs.ErrExist)
}

// sealFile verifies everything, writes the seal and brings it to the disk. Nobody puts meanwhile.
func (c *Cache) sealFile() error {
	if _, ok := c.seal(); !ok {
		rep, sum, err := c.examine(context.Background(), func(i, offset int64) error {
			_, err := c.guard(func() error {
				_, err := c.swapSlot(i, offset, 0)
				return err
			})
			return err
		})
		if err != nil {
			return err
		}
		s := seal{entries: rep.Filled, index: sum}
		if _, err := c.guard(func() error { s.tail = int64(c.tail.Load() &^ frozen); return nil }); err != nil {
			return err
		}
		if err := flush(c.fd); err != nil {
			return fmt.Errorf("cache: flushing %s: %w", c.name(), err)
		}
		fault.Point("cache.sealing")
		if err := writeFull(c.fd, s.encode(), sealAt); err != nil {
			return fmt.Errorf("cache: sealing %s: %w", c.name(), err)
		}
	}
	if err := flush(c.fd); err != nil {
		return fmt.Errorf("cache: flushing %s: %w", c.name(), err)
	}
	fault.Point("cache.sealed")
	return nil
}

// nameFile gives the file a name, or a copy of it where it can't have it: on another file system, or when all of its names were
// removed, after which the kernel gives it none.
func (c *Cache) nameFile(dir int, path, name string, overwrite bool) error {
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
		return c.copyTo(dir, path, name, overwrite)
	case err != nil:
		return explainDir(filepath.Dir(path), err)
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
		return errors.Join(explainDir(filepath.Dir(path), err), unlink(dir, temp))
	}
	fault.Point("cache.renamed")
	return unlink(dir, temp)
}

// copyTo makes a sealed copy of the file.
func (c *Cache) copyTo(dir int, path, name string, overwrite bool) error {
	return publish(dir, path, name, overwrite, c.copyFile)
}

// publish makes a file that fill writes and gives it its name when it is whole.
func publish(dir int, path, name string, overwrite bool, fill func(fd int) error) (err error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	temp := draftName(name, id)
	d, err := newDraft(dir, func() string { return temp })
	if err != nil {
		return explainDir(filepath.Dir(path), err)
	}
	defer func() { err = errors.Join(err, d.drop()) }()
	if err := fill(d.fd); err != nil {
		return explainDir(filepath.Dir(path), err)
	}
	fault.Point("cache.copied")
	if !overwrite {
		err := d.name(name)
		if errors.Is(err, fs.ErrExist) {
			return taken(path)
		} else if err != nil {
			return explainDir(filepath.Dir(path), err)
		}
		return nil
	}
	if d.hidden == "" {
		if err := d.name(temp); err != nil {
			return explainDir(filepath.Dir(path), err)
		}
		fault.Point("cache.linked")
	}
	d.hidden = ""
	return replace(dir, path, temp, name)
}

// copyFile copies the file, its holes as holes, as a cache of its own, and brings it to the disk.
func (c *Cache) copyFile(to int) error {
	var st unix.Stat_t
	if err := unix.Fstat(c.fd, &st); err != nil {
		return err
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
	if err := writeFull(to, h.encode()[:fixedSize+4], 0); err != nil {
		return err
	}
	return flush(to)
}
