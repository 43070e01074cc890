package pyfunc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"leat/ndarray"
)

// outputAlign is the alignment of output arrays.
const outputAlign = 64

// outputMemory is the file in memory in which a server places output arrays.
type outputMemory struct {
	file   *os.File
	mapped []byte
	max    int64
}

// reach maps the memory as far as the arrays of a block need it. Mapping it later would unmap those
// that were returned before.
func (m *outputMemory) reach(arrays []outputArray) error {
	var end int64
	for _, a := range arrays {
		if !a.set {
			continue
		}
		if _, e, err := m.place(a); err == nil { // else array reports it
			end = max(end, e)
		}
	}
	if end <= int64(len(m.mapped)) {
		return nil
	}
	return m.grow(end)
}

// array returns an array in the memory that reach has mapped. It is valid until the next block.
func (m *outputMemory) array(a outputArray) (*ndarray.Array, error) {
	t, end, err := m.place(a)
	if err != nil {
		return nil, err
	}
	return ndarray.FromBytes(t, m.mapped[a.offset:end:end], a.bands, a.rows, a.columns), nil
}

// place returns the type of an array and where it ends in the memory.
func (m *outputMemory) place(a outputArray) (t ndarray.DType, end int64, err error) {
	if int(a.code) >= len(typeCodes) {
		return t, 0, fmt.Errorf("an array of a type with the code %d, expected less than %d", a.code, len(typeCodes))
	}
	t = typeCodes[a.code]
	size, ok := ndarray.ByteSize(t, a.bands, a.rows, a.columns)
	end = a.offset + int64(size)
	if !ok || a.bands < 1 || a.rows < 1 || a.columns < 1 || a.offset < 0 || a.offset%outputAlign != 0 ||
		end < a.offset || end > m.max {
		return t, 0, fmt.Errorf("an array of %v with the shape (%d, %d, %d) at byte %d", t, a.bands, a.rows, a.columns,
			a.offset)
	}
	return t, end, nil
}

// outputBytes returns the size of arrays that place has accepted.
func outputBytes(arrays []outputArray) (n int) {
	for _, a := range arrays {
		if a.set {
			n += a.bands * a.rows * a.columns * typeCodes[a.code].Size()
		}
	}
	return n
}

// grow maps the whole file again. It must have at least size bytes, and never gets smaller.
func (m *outputMemory) grow(size int64) error {
	st, err := m.file.Stat()
	if err != nil {
		return err
	}
	if st.Size() < size || st.Size() > m.max {
		return fmt.Errorf("the output memory has %d bytes, expected %d to %d", st.Size(), size, m.max)
	}
	if err := m.unmap(); err != nil {
		return err
	}
	m.mapped, err = unix.Mmap(int(m.file.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (m *outputMemory) unmap() error {
	if m.mapped == nil {
		return nil
	}
	err := unix.Munmap(m.mapped)
	m.mapped = nil
	return err
}

func (m *outputMemory) close() error { return errors.Join(m.unmap(), m.file.Close()) }
