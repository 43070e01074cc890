package namespace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// procState asks the kernel about a process of this PID namespace. Other users' processes may be hidden: of them it
// tells only that they exist.
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
	raw, _ := readSome(filepath.Join(dir, "cmdline"), 1024)
	if p.Command = commandText(raw); p.Command == "" { // zombies and kernel threads have none
		p.Command = commandText("[" + s.comm + "]")
	}
	return p
}

// allEnding reports whether all threads of a process end. The first may be a zombie while the others go on.
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
	text, err := readSome(filepath.Join(dir, "stat"), 4096)
	if err != nil {
		return s, "", err
	}
	if s, err = parseStat(text); err != nil {
		return s, "", err
	}
	status, err = readSome(filepath.Join(dir, "status"), 64<<10)
	return s, status, err
}

// gone reports whether a file of /proc could not be read since its process has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// readSome reads the beginning of a file.
func readSome(path string, most int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most))
	return string(b), err
}
