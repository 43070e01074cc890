package sysmem

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cgroupVersion names what is read of one version of cgroups.
type cgroupVersion struct {
	fsType, option         string // of the mount
	limit, usage, inactive string
}

var (
	cgroupV2 = cgroupVersion{"cgroup2", "", "memory.max", "memory.current", "inactive_file"}
	// The plain counts of version 1 leave children out, usage does not.
	cgroupV1 = cgroupVersion{"cgroup", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
		"total_inactive_file"}
)

// noLimit is the lowest value that means no limit. Version 1 writes the highest multiple of a page
// below 2^63.
const noLimit = 1 << 62

// files reads /proc and /sys below root.
type files struct{ root string }

// read returns a file, nil for one that does not exist or may not be read. Cgroups vanish at any
// time, which some files report as ENODEV.
func (r files) read(name string) ([]byte, error) {
	b, err := readSmallFile(r.root + name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, errNoDevice) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("free memory: %w", err)
	}
	return b, nil
}

// number reads a file of one number; ok is false if there is none or it means no limit.
func (r files) number(name string) (n int64, ok bool, err error) {
	b, err := r.read(name)
	if b == nil || err != nil {
		return 0, false, err
	}
	text := string(bytes.TrimSpace(b))
	if text == "max" {
		return 0, false, nil
	}
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("free memory: %s%s holds %.40q, expected a number of bytes",
			r.root, name, text)
	}
	return int64(min(u, math.MaxInt64)), u < noLimit, nil
}

// eachCgroup calls visit with the cgroups of this process and all their ancestors that are mounted,
// in the hierarchies that can count memory: version 2 and the memory controller of version 1. Both
// may exist.
func (r files) eachCgroup(visit func(dir, name string, v *cgroupVersion) error) error {
	own, err := r.read("/proc/self/cgroup")
	if own == nil || err != nil {
		return err
	}
	mounts, err := r.read("/proc/self/mountinfo")
	if mounts == nil || err != nil {
		return err
	}
	v2, v1 := cgroupPaths(own)
	for _, h := range []struct {
		path    string
		version *cgroupVersion
	}{
		{v2, &cgroupV2}, {v1, &cgroupV1},
	} {
		if h.path == "" {
			continue
		}
		m, ok := findMount(mounts, h.version.fsType, h.version.option, h.path)
		if !ok {
			continue
		}
		for rel := m.rel; ; rel = path.Dir(rel) {
			name := strings.TrimSuffix(m.root, "/") + strings.TrimSuffix(rel, "/")
			if name == "" {
				name = "/"
			}
			if err := visit(path.Join(m.point, rel), name, h.version); err != nil {
				return err
			}
			if rel == "/" {
				break
			}
		}
	}
	return nil
}

// cgroupPaths returns the cgroups of the process in the unified hierarchy and in the one of the
// memory controller, "" for none.
func cgroupPaths(b []byte) (v2, v1 string) {
	for line := range strings.Lines(string(b)) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, name, ok := strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(name, "/") {
			continue
		}
		if id == "0" && controllers == "" {
			v2 = name
		} else if hasOption(controllers, "memory") {
			v1 = name
		}
	}
	return v2, v1
}

func hasOption(list, option string) bool { return slices.Contains(strings.Split(list, ","), option) }
