package sysmem

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
)

// Available returns how much memory this process may still take, and by which limit. need is what
// the caller is about to take: if clearly more is free, the result may leave out pages that a
// cgroup could drop. Nothing is set aside. A limit that does not exist or may not be read is none;
// the error says that no limit was found, or which one was not understood.
func Available(need int64) (Free, error) { return readAvailable("", need) }

// RAM returns the bytes of memory that this process may use, 0 where that is not known.
func RAM() int64 {
	ram, _ := machineMemory()
	return limitByCgroups("", ram)
}

// RAMAndSwap returns the bytes of memory and swap that this process may use, 0 where that is not
// known.
func RAMAndSwap() int64 {
	ram, swap := machineMemory()
	return limitByCgroups("", ram+swap)
}

func machineMemory() (ram, swap int64) {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0, 0
	}
	unit := uint64(max(i.Unit, 1))
	most := uint64(math.MaxInt64/2) / unit
	return int64(min(uint64(i.Totalram), most) * unit), int64(min(uint64(i.Totalswap), most) * unit)
}

// Resident returns the bytes of this process that are in memory, shared pages included; 0 where
// that is not known.
func Resident() int64 {
	b, err := readSmallFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

const errNoDevice = unix.ENODEV

// readSmallFile is os.ReadFile without the poller, which files of /proc have no use for: it takes a
// third of the time.
func readSmallFile(name string) ([]byte, error) {
	fd, err := fdio.Open(unix.AT_FDCWD, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 4096)
	for {
		n, err := fdio.Retry(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = append(b, make([]byte, len(b))...)[:len(b)]
		}
	}
}
