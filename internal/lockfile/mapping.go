//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// mappingCarriesLock is true where a lock belongs to the open file, which a mapping keeps.
// Elsewhere it ends with its descriptor.
const mappingCarriesLock = runtime.GOOS == "linux"

// Mapping is memory of a locked file. On Linux the mapping carries the lock, so that thousands of
// them need no descriptor.
type Mapping struct {
	Data []byte // valid until Close
	fd   int    // -1 where the mapping carries the lock
}

// Map maps the first length bytes of the file, for writing too if write is true, and hands the lock
// over to the mapping: the Lock must not be used afterwards, even if Map fails. The file must have
// length bytes, since an access beyond its end raises a signal.
func (l *Lock) Map(length int, write bool) (*Mapping, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	return l.MapAs(length, prot, unix.MAP_SHARED)
}

// MapAs is Map with the protection and flags of mmap.
func (l *Lock) MapAs(length, prot, flags int) (*Mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return nil, errors.Join(l.dir.explain("stat", l.name, err), l.Release())
	}
	if length <= 0 || st.Size < int64(length) {
		return nil, errors.Join(fmt.Errorf("mapping %d bytes of %s: the file has %d", length, l.dir.FilePath(l.name),
			st.Size), l.Release())
	}
	data, err := unix.Mmap(l.fd, 0, length, prot, flags)
	if err != nil {
		return nil, errors.Join(l.dir.explain("map", l.name, err), l.Release())
	}
	m := &Mapping{Data: data, fd: -1}
	fd := l.fd
	l.fd = -1 // another file may get the number
	if !mappingCarriesLock {
		m.fd = fd
	} else if err := unix.Close(fd); err != nil { // without unlocking
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close unmaps the memory, which must not be accessed afterwards, and ends the lock.
func (m *Mapping) Close() error {
	err := unix.Munmap(m.Data)
	m.Data = nil
	if m.fd >= 0 {
		err = errors.Join(err, unix.Close(m.fd))
		m.fd = -1
	}
	return err
}
