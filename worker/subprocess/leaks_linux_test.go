package subprocess

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInheritedDescriptors(t *testing.T) {
	fd, err := unix.MemfdCreate("test-arena", unix.MFD_CLOEXEC)
	try(t, err)
	arena := os.NewFile(uintptr(fd), "arena")
	defer arena.Close()
	other, err := os.Open("/dev/zero") // open in this process, not given
	try(t, err)
	defer other.Close()
	// Whoever started the tests may have left descriptors open for all their children.
	inherited := map[int]bool{}
	for fd := range listFiles() {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		inherited[fd] = err == nil && flags&unix.FD_CLOEXEC == 0
	}
	r := start(t, Options{Files: []*os.File{arena}}, 4)
	for i := range 4 {
		h, _ := r.meet(t, i)
		if !strings.HasPrefix(h.Files[firstFile], "/memfd:test-arena") {
			t.Errorf("descriptor %d is %q", firstFile, h.Files[firstFile])
		}
		if h.Files[0] != "/dev/null" {
			t.Errorf("standard input is %q", h.Files[0])
		}
		for fd, name := range h.Files {
			// Go's own poller and limits and the directory that lists them all are the worker's.
			own := strings.HasPrefix(name, "anon_inode:") || strings.HasPrefix(name,
				"/sys/fs/cgroup/") || name == "/proc/"+itoa(h.Pid)+"/fd"
			if fd > firstFile && !own && !inherited[fd] {
				t.Errorf("worker %d has descriptor %d, %s", i, fd, name)
			}
			if fd >= 3 && fd < firstFile && !strings.HasPrefix(name, "socket:") {
				t.Errorf("worker %d: connection %d is %s", i, fd, name)
			}
		}
	}
}

func TestRepeatedStartsLeakNothing(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 20
	}
	once := func() {
		r := &run{connector: &connector{}}
		f, err := New(&Options{Env: []string{"LEAT_PROCTEST=worker"}}).Start(t.Context(), r.options(2))
		try(t, err)
		r.meet(t, 0) // the other is stopped before it is up
		try(t, f.Stop(t.Context()))
		r.close()
	}
	once() // Go opens its poller
	before := listFiles()
	for range n / 2 {
		once()
	}
	if after := listFiles(); len(after) != len(before) {
		t.Errorf("descriptors before: %v\nafter: %v", before, after)
	}
	if left := childrenOf(t); len(left) != 0 {
		t.Errorf("children are left: %v", left)
	}
}

// childrenOf lists the children of the test's process, zombies too.
func childrenOf(t *testing.T) (children []string) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	try(t, err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		i := strings.LastIndex(string(text), ") ")
		if fields := strings.Fields(string(text)[i+2:]); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			children = append(children, string(text))
		}
	}
	return children
}
