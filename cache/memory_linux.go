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

// memory is what this process may have, in bytes: what the machine has, swap included, and what the limits of its control groups and of its
// addresses allow. It is asked for when an entry is very large, and so each time anew: limits change.
func memory() int64 {
	most := groupMemory("/", machineMemory())
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) == nil && l.Cur <= math.MaxInt64 {
		most = min(most, int64(l.Cur)/2) // the rest is the program's, and the runtime's own
	}
	return most
}

var machineMemory = sync.OnceValue(func() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	total := float64(i.Totalram) + float64(i.Totalswap)
	return int64(min(total*float64(max(i.Unit, 1)), math.MaxInt64/2))
})

// groupMemory lowers most to the least limit of this process's control groups and of those above them, of both versions. What can't be read, or is no
// number ("max"), is no limit. root is where /proc and /sys are.
func groupMemory(root string, most int64) int64 {
	groups, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return most
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
				if limit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && limit >= 0 {
					most = min(most, limit)
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return most
}
