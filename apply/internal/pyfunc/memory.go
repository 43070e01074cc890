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

// prepare maps the memory up to the end of an array. It invalidates the arrays of earlier blocks.
func (m *outputMemory) prepare(a *outputArray) error {
	t, err := ndarray.ParseDType(a.Type)
	if err != nil {
		return err
	}
	size, ok := ndarray.ByteSize(t, a.Bands, a.Rows, a.Columns)
	end := a.Offset + int64(size)
	if !ok || a.Bands < 1 || a.Rows < 1 || a.Columns < 1 || a.Offset < 0 || a.Offset%outputAlign != 0 ||
		end < a.Offset || end > m.max {
		return fmt.Errorf("an array of %s with the shape (%d, %d, %d) at byte %d", a.Type, a.Bands, a.Rows, a.Columns,
			a.Offset)
	}
	if end > int64(len(m.mapped)) {
		return m.grow(end)
	}
	return nil
}

// array returns a prepared array. All arrays of a block are prepared before the first is used,
// since prepare may unmap what an array is in.
func (m *outputMemory) array(a *outputArray) *ndarray.Array {
	t, _ := ndarray.ParseDType(a.Type)
	size, _ := ndarray.ByteSize(t, a.Bands, a.Rows, a.Columns)
	end := a.Offset + int64(size)
	return ndarray.FromBytes(t, m.mapped[a.Offset:end:end], a.Bands, a.Rows, a.Columns)
}

// grow maps the file anew, which has at least size bytes and never gets smaller.
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
