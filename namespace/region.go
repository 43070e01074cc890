//go:build unix

package namespace

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

// thing is a named file of the job that this process has mapped.
type thing struct {
	mapping *lockfile.Mapping
	size    int
}

func (t *thing) close() error { return t.mapping.Close() }

// Region is memory that all members who ask for its name share. shm gives it a type.
type Region struct {
	name string
	data []byte
}

// Region returns the memory of that name, size bytes that are zero at first, made by whoever asks
// first. All must ask for one size. The memory is reserved at once: where there is no room the
// error is ENOSPC's, never a signal later. It is valid until Close; nothing but atomic operations
// orders what members write and read.
func (n *Namespace) Region(name string, size int) (*Region, error) {
	data, err := n.memory("region-", name, size)
	if err != nil {
		return nil, err
	}
	return &Region{name: name, data: data}, nil
}

// Bytes is the memory, valid until the namespace is closed.
func (r *Region) Bytes() []byte { return r.data }

// Name is what the region was asked for by.
func (r *Region) Name() string { return r.name }

// memory maps a file of the job. The kind keeps the names of regions, counters and barriers apart.
func (n *Namespace) memory(kind, name string, size int) ([]byte, error) {
	if err := checkWhat(name); err != nil {
		return nil, err
	}
	if size <= 0 {
		return nil, fmt.Errorf("%s can't have %d bytes", name, size)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	other := func(has int) error {
		return fmt.Errorf("%s has %d bytes, not %d: all processes must ask for one size", name, has, size)
	}
	if t := n.shared[kind+name]; t != nil {
		if t.size != size {
			return nil, other(t.size)
		}
		return t.mapping.Data, nil
	}
	if n.borrowed != n.reg {
		return nil, fmt.Errorf("%s can't be shared: the runtime folder was removed while the job was running, and what others have of that name with it: start the job again", name)
	}
	dir, err := n.borrowed.root.MakeSub(prefixOf(n.borrowed.record.Number))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	hold, _, err := dir.LockOrPublish(kind+name, 0o600, func(fd int) error { return reserve(fd, size) })
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%s has no room for %d bytes: %w", n.borrowed.root.Path(), size, err)
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
	n.shared[kind+name] = &thing{mapping: m, size: size}
	return m.Data, nil
}

// Counter is a 64-bit integer that the members of a job share. Its methods are atomic across
// processes.
type Counter struct{ v *atomic.Int64 }

// Counter returns the counter of that name, 0 at first. It is valid until Close.
func (n *Namespace) Counter(name string) (*Counter, error) {
	data, err := n.memory("counter-", name, 8)
	if err != nil {
		return nil, err
	}
	return &Counter{(*atomic.Int64)(unsafe.Pointer(&data[0]))}, nil
}

// Add adds delta and returns the sum.
func (c *Counter) Add(delta int64) int64 { return c.v.Add(delta) }

// Load returns the value.
func (c *Counter) Load() int64 { return c.v.Load() }

// Store sets the value.
func (c *Counter) Store(v int64) { c.v.Store(v) }

// CompareAndSwap sets the value to to if it is from, and reports whether it was.
func (c *Counter) CompareAndSwap(from, to int64) bool { return c.v.CompareAndSwap(from, to) }

// Dir returns the path of a directory that the members share, making it if it is missing. It lies
// in the runtime folder, which is memory where that is in /dev/shm, and is removed with all that it
// holds when the last member leaves or, after a kill, by one of the next jobs.
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
