package cache

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// memory returns how much memory this process may use, in bytes: that of the machine, with swap,
// within the limits of its control groups and address space. It is only called for large entries,
// and not cached, since limits change.
func memory() int64 {
	limit := groupMemory("/", machineMemory())
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) == nil && l.Cur <= math.MaxInt64 {
		limit = min(limit, int64(l.Cur)/2) // the rest is for the program and the runtime
	}
	return limit
}

var machineMemory = sync.OnceValue(func() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	total := float64(i.Totalram) + float64(i.Totalswap)
	return int64(min(total*float64(max(i.Unit, 1)), math.MaxInt64/2))
})

// groupMemory returns the minimum of limit and the limits of this process's control groups,
// versions 1 and 2, and their ancestors. Limits that can't be read, or are "max", are ignored. root
// is the parent of /proc and /sys.
func groupMemory(root string, limit int64) int64 {
	groups, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(part) < 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		switch {
		case strings.Contains(","+part[1]+",", ",memory,"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case part[1] != "":
			continue
		}
		for group := path.Clean("/" + part[2]); ; group = path.Dir(group) {
			if b, err := os.ReadFile(path.Join(root, mount, group, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n >= 0 {
					limit = min(limit, n)
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}
