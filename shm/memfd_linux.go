package shm

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/procfile"
)

const (
	memfdName = "leat-shm"
	// sealsOpen fix the size of every memfd, so that no reader gets a SIGBUS.
	sealsOpen = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	// sealsClosed keep all but the creator from writing. Its mapping, made before, stays writable.
	sealsClosed = sealsOpen | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL
)

// createMemfd makes an empty memfd of that size, mapped for writing. limit is the first descriptor
// number that is too high.
func createMemfd(size int64, limit int) (*segment, error) {
	if err := fault.Error("shm.memfd"); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE),
		errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("%w: %w", errNoMemfd, err)
	case err != nil:
		return nil, fmt.Errorf("memfd_create: %w", wrapNoSpace(err))
	}
	seg, err := func() (*segment, error) {
		// The kernel returns the lowest free descriptor, so its number is that of the open ones.
		if fd >= limit {
			return nil, fmt.Errorf("%w: %d open descriptors, half of the limit", errNoMemfd, fd)
		}
		if err := unix.Fchmod(fd, 0o600); err != nil {
			return nil, fmt.Errorf("chmod of a memfd: %w", err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			return nil, fmt.Errorf("size of a memfd: %w", wrapNoSpace(err))
		}
		if err := addSeals(fd, sealsOpen); err != nil {
			return nil, err
		}
		mem, err := mapMemory(fd, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, mapError(size, err)
		}
		return &segment{mem: mem, fd: fd, write: true, own: true}, nil
	}()
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	seg.close = func() error { return errors.Join(unmapMemory(mem(seg)), unix.Close(seg.fd)) }
	return seg, nil
}

func addSeals(fd, seals int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("sealing a memfd: %w", err)
	}
	return nil
}

// seal keeps all but its creator from writing to a memfd.
func (seg *segment) seal() error {
	if seg.sealed {
		return nil
	}
	if err := addSeals(seg.fd, sealsClosed); err != nil {
		return err
	}
	seg.sealed = true
	return nil
}

// sealedMemfd reports whether a descriptor is of a memfd that can no longer be written or
// truncated.
func sealedMemfd(fd int) bool {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return err == nil && seals&sealsClosed == sealsClosed
}

// leadsTo reports whether a descriptor of a process is of the given file.
func leadsTo(pid, fd int, dev, ino uint64) bool {
	f, err := procfile.OpenFD(pid, fd)
	if err != nil {
		return false
	}
	defer f.Close()
	return uint64(f.Stat.Dev) == dev && f.Stat.Ino == ino
}

// exclude locks a segment of this process exclusively; ok is false if it has readers. While the
// returned descriptor is open no reader can attach it.
func (seg *segment) exclude() (fd int, ok bool, err error) {
	fd, err = procfile.Reopen(seg.fd, unix.O_RDONLY)
	if err != nil {
		return -1, false, fmt.Errorf("reopening a memfd: %w", err)
	}
	if err := fdio.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = nil
		}
		return -1, false, err
	}
	return fd, true, nil
}

// openMemfd opens another process's memfd under a shared lock. It must be one of leat's and of this
// user's, of a fixed size and, for a writer, not sealed; the error wraps ErrStale, ErrForeign or
// errSealed. size is that of the file.
func openMemfd(pid, fd int, write bool) (got int, size int64, err error) {
	path := fmt.Sprintf("descriptor %d of process %d", fd, pid)
	f, err := procfile.OpenFD(pid, fd)
	switch {
	case errors.Is(err, procfile.ErrGone):
		return -1, 0, fmt.Errorf("%w: %w", ErrStale, err)
	case errors.Is(err, procfile.ErrForeign):
		return -1, 0, fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil:
		return -1, 0, err
	}
	defer f.Close()
	st := &f.Stat
	if !strings.HasPrefix(f.Name, "/memfd:"+memfdName) {
		return -1, 0, fmt.Errorf("%w: %s is another file now", ErrStale, path)
	}
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	got, err = f.Open(flags)
	if err != nil {
		return -1, 0, fmt.Errorf("opening %s: %w", path, err)
	}
	opened := got
	defer func() {
		if err != nil {
			unix.Close(opened)
		}
	}()
	fault.Point("shm.opened")
	// Its maker locks it exclusively while it recycles it; a child that is being started may keep
	// that lock a moment longer.
	if err := patiently(func() error { return fdio.Flock(got, unix.LOCK_SH|unix.LOCK_NB) }); errors.Is(err,
		unix.EWOULDBLOCK) {
		return -1, 0, fmt.Errorf("%w: its memory is being reused", ErrStale)
	} else if err != nil {
		return -1, 0, fmt.Errorf("locking %s: %w", path, err)
	}
	if write {
		// Before the check of the seals, since sealing takes this lock exclusively first.
		if ok, err := lockByte(got, unix.F_RDLCK); err != nil {
			return -1, 0, err
		} else if !ok {
			return -1, 0, fmt.Errorf("%w: array is being sealed", errSealed)
		}
	}
	seals, err := unix.FcntlInt(uintptr(got), unix.F_GET_SEALS, 0)
	if err != nil || seals&sealsOpen != sealsOpen {
		return -1, 0, fmt.Errorf("%w: %s is another file now", ErrStale, path)
	}
	if write && seals&unix.F_SEAL_FUTURE_WRITE != 0 {
		return -1, 0, errSealedArray
	}
	return got, st.Size, nil
}

// populateWrite takes memory for a range of a mapping and puts it into the page table. Kernels
// before 5.14 leave that to the first store.
func populateWrite(b []byte) error {
	if err := fault.Error("shm.populate"); err != nil {
		return err
	}
	for len(b) > 0 {
		switch err := unix.Madvise(b, unix.MADV_POPULATE_WRITE); err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.EINVAL:
			return nil
		case unix.EFAULT: // a store would get a SIGBUS
			return unix.ENOSPC
		default:
			return err
		}
	}
	return nil
}
