package tiffwrite

import (
	"os"
	"reflect"

	"github.com/klauspost/compress/flate"
	"golang.org/x/sys/unix"
)

// populateTables makes the kernel provide the memory of a new compressor's tables at once. The
// compressor reads each entry before it writes it, so that each page would fault twice, and the
// second fault interrupts the other processors: in a virtual machine, that takes longer than
// encoding a small tile.
func populateTables(w *flate.Writer) {
	if at, size := tables(w); size > 0 {
		before := at % uintptr(os.Getpagesize())
		// Kernels before 5.14 don't know the request, and pages fault as before.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, at-before, before+size, unix.MADV_POPULATE_WRITE)
	}
}

// tables returns the address and the size of a compressor's tables of matches, of levels 1 to 6; 0
// if it has none.
func tables(w *flate.Writer) (at, size uintptr) {
	v := reflect.ValueOf(w).Elem()
	for _, name := range [...]string{"d", "fast"} {
		if v.Kind() != reflect.Struct {
			return 0, 0
		}
		v = v.FieldByName(name)
	}
	if v.Kind() != reflect.Interface || v.IsNil() || v.Elem().Kind() != reflect.Pointer {
		return 0, 0
	}
	return v.Elem().Pointer(), v.Elem().Type().Elem().Size()
}
