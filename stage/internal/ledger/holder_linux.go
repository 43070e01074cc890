package ledger

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// StoppedHolder is the number of the process that holds a key's lock, if that is stopped, as by SIGSTOP, Slurm or ^Z. 0: it runs, there is none, or it can't be
// seen from here, as one in another container.
func (l *Ledger) StoppedHolder(k Key) int {
	for _, pid := range l.pids() {
		// Its state last: it was stopped with the lock in its hands.
		if holdsLock(pid, l.dir.File("locks"), k.lock()) && isStopped(pid) {
			return pid
		}
	}
	return 0
}

// pids are the numbers of the other processes, as they call themselves: in another container they may be somebody else's here.
func (l *Ledger) pids() (all []int) {
	l.peersMu.Lock()
	defer l.peersMu.Unlock()
	_ = l.guard(func() error {
		if err := l.refresh(); err != nil {
			return err
		}
		for _, p := range l.peers {
			if pid := at[procHeader](p.data, 0).pid; pid > 0 && pid == int64(int32(pid)) {
				all = append(all, int(pid))
			}
		}
		return nil
	})
	return all
}

// holdsLock tells whether a process has a file open with a lock on that number. A lock of an open file description names no process; /proc tells it of each descriptor.
func holdsLock(pid int, file string, number int64) bool {
	var want unix.Stat_t
	if unix.Stat(file, &want) != nil {
		return false
	}
	proc := fmt.Sprintf("/proc/%d", pid)
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return false
	}
	for _, fd := range open {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(proc, "fd", fd.Name()), &st) != nil || st.Dev != want.Dev || st.Ino != want.Ino {
			continue
		}
		info, err := os.Open(filepath.Join(proc, "fdinfo", fd.Name()))
		if err != nil {
			continue
		}
		holds := lockIn(bufio.NewScanner(info), number)
		if info.Close(); holds {
			return true
		}
	}
	return false
}

// lockIn tells whether one of the lines of an fdinfo is a lock on the number, such as "lock:	1: OFDLCK  ADVISORY  WRITE -1 00:1b:5 77 77".
func lockIn(lines *bufio.Scanner, number int64) bool {
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 9 || f[0] != "lock:" || f[2] != "OFDLCK" || f[4] != "WRITE" {
			continue
		}
		first, err1 := strconv.ParseInt(f[7], 10, 64)
		last, err2 := strconv.ParseInt(f[8], 10, 64) // the kernel makes one of neighbours
		if err1 == nil && err2 == nil && first <= number && number <= last {
			return true
		}
	}
	return false
}

// isStopped tells whether a process is stopped, or held by a debugger.
func isStopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The command stands in parentheses and is whatever the process likes.
	rest := strings.TrimSpace(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "t")
}
