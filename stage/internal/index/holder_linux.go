package index

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// StoppedHolder returns the id of the process that holds a key's lock if that process is stopped,
// for example by SIGSTOP, Slurm or ^Z. It returns 0 if the process runs, if there is none, or if it
// is invisible, as in another container.
func (l *Index) StoppedHolder(k Key) int {
	file, ok := l.locksFile()
	if !ok {
		return 0
	}
	for _, pid := range l.pids() {
		// Check the state last, so that it was stopped while it held the lock.
		if holdsLock(pid, file, k.lock()) && isStopped(pid) {
			return pid
		}
	}
	return 0
}

// lockHolder returns the id of the process that holds a lock, 0 if it is invisible, and whether it
// is stopped. It searches all processes, since one that opens the directory is not a peer yet.
func (l *Index) lockHolder(number int64) (pid int, stopped bool) {
	file, ok := l.locksFile()
	all, err := os.ReadDir("/proc")
	if !ok || err != nil {
		return 0, false
	}
	for _, e := range all {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && holdsLock(pid, file, number) {
			return pid, isStopped(pid)
		}
	}
	return 0, false
}

// locksFile identifies the file of locks, even after the directory was renamed.
func (l *Index) locksFile() (st unix.Stat_t, ok bool) {
	err := unix.Fstatat(l.dir.Fd(), "locks", &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err == nil
}

// pids returns the ids of the peers as they recorded them. For peers in another container they may
// belong to other processes here.
func (l *Index) pids() (all []int) {
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

// holdsLock reports whether a process holds a lock on that number. A lock of an open file
// description names no process, but /proc lists it per descriptor.
func holdsLock(pid int, want unix.Stat_t, number int64) bool {
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

// lockIn reports whether a line of an fdinfo is a lock on the number, such as "lock: 1: OFDLCK
// ADVISORY WRITE -1 00:1b:5 77 77".
func lockIn(lines *bufio.Scanner, number int64) bool {
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 9 || f[0] != "lock:" || f[2] != "OFDLCK" || f[4] != "WRITE" {
			continue
		}
		first, err1 := strconv.ParseInt(f[7], 10, 64)
		last, err2 := strconv.ParseInt(f[8], 10, 64) // the kernel merges adjacent locks
		if err1 == nil && err2 == nil && first <= number && number <= last {
			return true
		}
	}
	return false
}

// isStopped reports whether a process is stopped or traced by a debugger.
func isStopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The command name, in parentheses, may contain anything.
	rest := strings.TrimSpace(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "t")
}
