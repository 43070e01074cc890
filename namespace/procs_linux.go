package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"leat/internal/fdio"

	"golang.org/x/sys/unix"
)

// procState asks the kernel about a process of this PID namespace. Other users' processes may be
// hidden: only their existence is visible.
func procState(pid int) procInfo {
	p := procInfo{PID: pid}
	if pid <= 0 {
		return p // not a process, although kill gives 0 and negative numbers a meaning
	}
	dir := fmt.Sprintf("/proc/%d", pid)
	s, status, err := readTask(dir)
	if err != nil {
		p.Exists = !gone(err) || unix.Kill(pid, 0) != unix.ESRCH
		return p
	}
	p.Exists, p.Start, p.State = true, s.start, s.state
	p.Exiting = ending(s, status)
	if p.Exiting && s.threads > 1 {
		p.Exiting = allEnding(dir)
	}
	raw, _ := readSome(filepath.Join(dir, "cmdline"), commandBytes)
	if p.Command = commandText(raw); p.Command == "" { // zombies and kernel threads have none
		p.Command = commandText("[" + s.comm + "]")
	}
	return p
}

// allEnding reports whether all threads of a process are ending. The first may be a zombie while
// others run.
func allEnding(dir string) bool {
	tasks, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return true // gone by now
	}
	for _, t := range tasks {
		s, status, err := readTask(filepath.Join(dir, "task", t.Name()))
		if gone(err) {
			continue
		}
		if err != nil || !ending(s, status) {
			return false
		}
	}
	return true
}

func readTask(dir string) (s statLine, status string, err error) {
	// The pending signals first, then the flag of exiting: a thread drops the former before it sets
	// the latter.
	if status, err = readSome(filepath.Join(dir, "status"), 64<<10); err != nil {
		return s, "", err
	}
	text, err := readSome(filepath.Join(dir, "stat"), 4096)
	if err != nil {
		return s, "", err
	}
	s, err = parseStat(text)
	return s, status, err
}

// gone reports whether a file of /proc could not be read since its process has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// readSome reads the first limit bytes of a file of /proc, with a third of os.File's system calls.
func readSome(path string, limit int) (string, error) {
	fd, err := fdio.Open(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, min(limit, 4096))
	for len(b) < limit {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(limit-len(b), len(b)))
		}
		n, err := fdio.Retry(func() (int, error) { return unix.Read(fd, b[len(b):min(cap(b), limit)]) })
		if err != nil {
			return string(b), &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		b = b[:len(b)+n]
	}
	return string(b), nil
}
