//go:build unix

package namespace

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/lockfile"
)

// mapped is a shared file of the job that this process has mapped.
type mapped struct {
	mapping *lockfile.Mapping
	size    int
}

// Region returns the memory of that name: size bytes that are zero at first, aligned to a page. All
// members must ask for the same size. The memory is reserved at once: if there is no space the
// error wraps ENOSPC. It is valid until Close. Only atomic operations order the reads and writes of
// different members.
func (n *Namespace) Region(name string, size int) ([]byte, error) {
	return n.memory("region-", name, size)
}

// memory maps a file of the job. The kind separates the names of regions, counters and barriers.
func (n *Namespace) memory(kind, name string, size int) ([]byte, error) {
	if err := checkWhat(name); err != nil {
		return nil, err
	}
	if size <= 0 {
		return nil, fmt.Errorf("region %s of %d bytes, expected at least 1", name, size)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	other := func(has int) error {
		return fmt.Errorf("%s has %d bytes, expected %d", name, has, size)
	}
	if t := n.shared[kind+name]; t != nil {
		if t.size != size {
			return nil, other(t.size)
		}
		return t.mapping.Data, nil
	}
	if n.borrowed != n.reg {
		return nil, fmt.Errorf("%s: the runtime directory was removed while the job was running", name)
	}
	dir, err := n.borrowed.root.MakeSub(prefixOf(n.borrowed.record.Number))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	hold, _, err := dir.LockOrPublish(kind+name, 0o600, func(fd int) error { return fdio.Reserve(fd, 0, int64(size)) })
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%s has no space for %d bytes: %w", n.borrowed.root.Path(), size, err)
		}
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(hold.Fd(), &st); err != nil {
		return nil, errors.Join(err, hold.Release())
	}
	if st.Size != int64(size) {
		return nil, errors.Join(other(int(st.Size)), hold.Release())
	}
	m, err := hold.Map(size, true)
	if err != nil {
		return nil, err
	}
	n.shared[kind+name] = &mapped{mapping: m, size: size}
	return m.Data, nil
}

// Counter returns the counter of that name, 0 at first. It is atomic across the members, and valid
// until Close.
func (n *Namespace) Counter(name string) (*atomic.Int64, error) {
	data, err := n.memory("counter-", name, 8)
	if err != nil {
		return nil, err
	}
	return (*atomic.Int64)(unsafe.Pointer(&data[0])), nil
}

// Dir returns the path of a directory that the members share, and creates it if it is missing. It
// lies in the runtime directory, which is in memory if that is in /dev/shm. The last member's Close
// removes it with its content; after a kill one of the next jobs does.
func (n *Namespace) Dir(name string) (string, error) {
	if err := checkWhat(name); err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return "", ErrClosed
	}
	dir, err := n.borrowed.root.MakeSub(prefixOf(n.borrowed.record.Number))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	sub, err := dir.MakeSub("dir-" + name)
	if err != nil {
		return "", err
	}
	return sub.Path(), sub.Close()
}
