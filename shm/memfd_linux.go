package shm

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/procfile"
)

const (
	memfdName = "leat-shm"
	// What every memfd has from its begin: its size never changes, so that no reader ever meets a
	// signal.
	sealsOpen = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	// What one has that only its creator may write. The creator's mapping, made before, goes on
	// writing.
	sealsClosed = sealsOpen | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL
)

// createMemfd makes an empty memfd of that size, mapped for writing. limit is the first descriptor
// that is too many.
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
		return nil, fmt.Errorf("memfd_create: %w", noRoomIf(err))
	}
	seg, err := func() (*segment, error) {
		// The kernel gives the lowest descriptor that is free, so its number tells how many are
		// open.
		if fd >= limit {
			return nil, fmt.Errorf("%w: %d descriptors are open, half of what the process may have", errNoMemfd, fd)
		}
		if err := unix.Fchmod(fd, 0o600); err != nil {
			return nil, fmt.Errorf("chmod of a memfd: %w", err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			return nil, fmt.Errorf("size of a memfd: %w", noRoomIf(err))
		}
		if err := addSeals(fd, sealsOpen); err != nil {
			return nil, err
		}
		mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, mapError(size, err)
		}
		return &segment{mem: mem, fd: fd, write: true, own: true}, nil
	}()
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	seg.close = func() error { return errors.Join(unix.Munmap(mem(seg)), unix.Close(seg.fd)) }
	return seg, nil
}

func addSeals(fd, seals int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("sealing a memfd: %w", err)
	}
	return nil
}

// seal keeps everyone but its creator from writing to a memfd from now on.
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

// sealedMemfd reports whether a descriptor is of memory that nobody can write to or cut off from
// now on.
func sealedMemfd(fd int) bool {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return err == nil && seals&sealsClosed == sealsClosed
}

// leadsTo reports whether a descriptor of a process leads to a file.
func leadsTo(pid, fd int, dev, ino uint64) bool {
	f, err := procfile.OpenFD(pid, fd)
	if err != nil {
		return false
	}
	defer f.Close()
	return uint64(f.Stat.Dev) == dev && f.Stat.Ino == ino
}

// exclude takes a segment of this process from all readers, or reports that there are some. While
// the returned descriptor is open nobody gets in.
func (seg *segment) exclude() (fd int, ok bool, err error) {
	fd, err = procfile.Reopen(seg.fd, unix.O_RDONLY)
	if err != nil {
		return -1, false, fmt.Errorf("opening a memfd again: %w", err)
	}
	if err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = nil
		}
		return -1, false, err
	}
	return fd, true, nil
}

// openMemfd opens another process's memfd, holding a shared lock on it, after it made sure that it
// is one of leat's, of this user's, and can't change its size; for a writer, that it is not sealed.
// The error wraps ErrStale, ErrForeign or ErrSealed. size is that of the file.
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
		return -1, 0, fmt.Errorf("%w: descriptor %d of process %d is another file now", ErrStale, fd, pid)
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
	// Its maker has it alone while it looks whether the memory is free to be used again; a child
	// that is being started may keep that up.
	if err := patiently(func() error { return flock(got, unix.LOCK_SH|unix.LOCK_NB) }); errors.Is(err,
		unix.EWOULDBLOCK) {
		return -1, 0, fmt.Errorf("%w: its memory is being used again", ErrStale)
	} else if err != nil {
		return -1, 0, fmt.Errorf("locking %s: %w", path, err)
	}
	if write {
		// Before the seals are looked at: who seals takes this lock alone, and seals then.
		if ok, err := lockWriter(got); err != nil {
			return -1, 0, err
		} else if !ok {
			return -1, 0, fmt.Errorf("%w: the array is being sealed", ErrSealed)
		}
	}
	seals, err := unix.FcntlInt(uintptr(got), unix.F_GET_SEALS, 0)
	if err != nil || seals&sealsOpen != sealsOpen {
		return -1, 0, fmt.Errorf("%w: descriptor %d of process %d is another file now", ErrStale, fd, pid)
	}
	if write && seals&unix.F_SEAL_FUTURE_WRITE != 0 {
		return -1, 0, errSealed
	}
	return got, st.Size, nil
}

// lockWriter takes a writer's lock on an open file; false tells that the file is being sealed.
func lockWriter(fd int) (ok bool, err error) { return lockByte(fd, unix.F_RDLCK) }

// lockSealer takes the lock that no writer has.
func lockSealer(fd int) (ok bool, err error) { return lockByte(fd, unix.F_WRLCK) }

// unlockSealer gives it back.
func unlockSealer(fd int) error {
	_, err := lockByte(fd, unix.F_UNLCK)
	return err
}

// lockByte sets a lock on the first byte, which belongs to the open file and goes with it: with its
// last mapping too.
func lockByte(fd int, kind int16) (bool, error) {
	lk := unix.Flock_t{Type: kind, Len: 1}
	for {
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("locking: %w", err)
		}
		return true, nil
	}
}

// populateWrite takes memory for a range of a mapping and puts it into the page table. Kernels
// before 5.14 don't know it: there a store does it.
func populateWrite(b []byte) error {
	if err := fault.Error("shm.populate"); err != nil {
		return err
	}
	for len(b) > 0 {
		err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.EINVAL):
			return nil
		case errors.Is(err, unix.EFAULT): // what a store would meet as SIGBUS
			return unix.ENOSPC
		}
		return err
	}
	return nil
}

// populateRead puts the pages of a mapping into the page table. What is not known or fails is left
// to the first load.
func populateRead(b []byte) {
	if len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_POPULATE_READ)
	}
}

// allocate takes the room of a file on its file system: later stores can't fail for want of it.
func allocate(fd int, size int64) error {
	for {
		err := unix.Fallocate(fd, 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return zeroFile(fd, size)
		}
		return err
	}
}

// descriptorLimit is half of the descriptors that the process may have.
func descriptorLimit() int {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil {
		return 512
	}
	return int(min(lim.Cur, 1<<20) / 2)
}
