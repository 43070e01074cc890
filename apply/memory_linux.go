package apply

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// systemMemory returns the memory in bytes available to this process: the machine's, limited by its
// control group and that group's ancestors. It returns 0 if that is unknown.
func systemMemory() int64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	n := int64(si.Totalram) * int64(si.Unit)
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return n
	}
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		if part[1] == "memory" { // version 1
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if part[1] != "" {
			continue
		}
		for dir := filepath.Clean("/" + part[2]); ; dir = filepath.Dir(dir) {
			if text, err := os.ReadFile(filepath.Join(root, dir, file)); err == nil {
				if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
					n = min(n, limit)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return n
}
