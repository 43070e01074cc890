//go:build unix

package lockfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Mapping is memory of a held file. On Linux the mapping itself carries the lock, so that thousands
// of holds take no descriptor.
type Mapping struct {
	Data []byte // valid until Close; length as asked for
	fd   int    // -1 where the mapping carries the lock
}

// Map maps length bytes of the file from its beginning, for writing too if write is true, and hands
// the hold over to the mapping: the Lock must not be used after it, even if Map fails. Bytes beyond
// the file's end can't be mapped, since touching them would be a signal.
func (h *Lock) Map(length int, write bool) (*Mapping, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	return h.MapAs(length, prot, unix.MAP_SHARED)
}

// MapAs is Map with protection and flags of one's own.
func (h *Lock) MapAs(length, prot, flags int) (*Mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(h.fd, &st); err != nil {
		return nil, errors.Join(h.dir.explain("stat", h.name, err), h.Release())
	}
	if length <= 0 || st.Size < int64(length) {
		return nil, errors.Join(fmt.Errorf("%s has %d bytes, %d were to be mapped", h.dir.FilePath(h.name), st.Size,
			length), h.Release())
	}
	data, err := unix.Mmap(h.fd, 0, length, prot, flags)
	if err != nil {
		return nil, errors.Join(h.dir.explain("map", h.name, err), h.Release())
	}
	m := &Mapping{Data: data, fd: -1}
	if !mappingCarriesLock {
		m.fd, h.fd = h.fd, -1
	} else if err := h.close(); err != nil { // not Release, which would unlock
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close unmaps the memory and ends the hold. Data must not be touched any more.
func (m *Mapping) Close() error {
	err := unix.Munmap(m.Data)
	m.Data = nil
	if m.fd >= 0 {
		err = errors.Join(err, unix.Close(m.fd))
		m.fd = -1
	}
	return err
}
