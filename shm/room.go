package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// room is the memory that may still be taken.
type room struct {
	Free  int64  // bytes, what is kept in reserve taken off; never negative
	Limit string // the tightest limit: "MemAvailable of the machine", "memory.max of cgroup /a/b"
}

// maxReserve is kept free below each limit, or a sixteenth of a small one: for page tables, for
// what other processes take between the check and the store, and because a cgroup at its limit only
// swaps and reclaims.
const maxReserve = 128 << 20

func reserve(limit int64) int64 { return min(maxReserve, limit/16) }

// noLimit is where version 1 counts begin that mean none; it writes the highest multiple of a page
// below 2^63.
const noLimit = 1 << 62

// readRoom returns the least of what the machine has available and what the cgroups of this process
// and all their ancestors leave. root is put before the paths of /proc and /sys, for tests. Pages
// of files that a cgroup can drop are counted as free only where there would be less than need
// without them, since the kernel takes long to tell.
//
// What is not there or may not be read is no limit. The error says that nothing was found at all,
// or what was not understood.
func readRoom(root string, need int64) (room, error) {
	r := roomReader{root: root, need: need, room: room{Free: math.MaxInt64}}
	if err := r.machine(); err != nil {
		return room{}, err
	}
	if err := r.cgroups(); err != nil {
		return room{}, err
	}
	if r.room.Limit == "" {
		return room{}, fmt.Errorf("how much memory is free is not known: no MemAvailable in %s/proc/meminfo and no cgroup with a limit", root)
	}
	return r.room, nil
}

type roomReader struct {
	root string
	need int64
	room room
}

// read returns a file, nil for one that is not there or not for us. Cgroups vanish at any time,
// which some files tell by ENODEV.
func (r *roomReader) read(name string) ([]byte, error) {
	b, err := readSmallFile(r.root + name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, errNoDevice) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("how much memory is free: %w", err)
	}
	return b, nil
}

// take lowers the room to free, if it is more.
func (r *roomReader) take(free int64, limit string) {
	if free = max(free, 0); free < r.room.Free {
		r.room = room{free, limit}
	}
}

func (r *roomReader) machine() error {
	b, err := r.read("/proc/meminfo")
	if b == nil || err != nil {
		return err
	}
	total, _ := statValue(b, "MemTotal:")
	free, ok := statValue(b, "MemAvailable:")
	if ok && total <= math.MaxInt64>>10 && free <= math.MaxInt64>>10 { // given in KiB
		r.take(free<<10-reserve(total<<10), "MemAvailable of the machine")
	}
	return nil
}

// cgroups looks at the hierarchies that can count memory: version 2 and the memory controller of
// version 1. Both may be there.
func (r *roomReader) cgroups() error {
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
		path  string
		found bool
		files cgroupFiles
	}{
		{v2.path, v2.found, cgroupV2}, {v1.path, v1.found, cgroupV1},
	} {
		if !h.found {
			continue
		}
		m, ok := findMount(mounts, h.files.fsType, h.files.option, h.path)
		if !ok {
			continue
		}
		if err := r.ancestors(m, h.files); err != nil {
			return err
		}
	}
	return nil
}

// cgroupFiles are the names of what is read in a cgroup.
type cgroupFiles struct {
	fsType, option         string // of the mount
	limit, usage, inactive string
}

var (
	cgroupV2 = cgroupFiles{"cgroup2", "", "memory.max", "memory.current", "inactive_file"}
	// The plain counts of version 1 leave children out, usage does not.
	cgroupV1 = cgroupFiles{"cgroup", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
)

// ancestors looks at a cgroup and at all above it that its mount shows.
func (r *roomReader) ancestors(m cgroupMount, files cgroupFiles) error {
	for rel := m.rel; ; rel = path.Dir(rel) {
		name := strings.TrimSuffix(m.root, "/") + strings.TrimSuffix(rel, "/")
		if name == "" {
			name = "/"
		}
		if err := r.cgroup(path.Join(m.point, rel), name, files); err != nil {
			return err
		}
		if rel == "/" {
			return nil
		}
	}
}

func (r *roomReader) cgroup(dir, name string, files cgroupFiles) error {
	limit, ok, err := r.number(dir + "/" + files.limit)
	if !ok || err != nil {
		return err
	}
	usage, ok, err := r.number(dir + "/" + files.usage)
	if !ok || err != nil {
		return err
	}
	free := limit - usage - reserve(limit)
	if free < r.need && free < r.room.Free {
		stat, err := r.read(dir + "/memory.stat")
		if err != nil {
			return err
		}
		if n, ok := statValue(stat, files.inactive); ok {
			free += min(n, usage)
		}
	}
	r.take(free, files.limit+" of cgroup "+name)
	return nil
}

// number reads a file of one number; ok is false where there is none, or it says that there is no
// limit.
func (r *roomReader) number(name string) (n int64, ok bool, err error) {
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
		return 0, false, fmt.Errorf("how much memory is free: %s%s holds %.40q, which is no number of bytes",
			r.root, name, text)
	}
	return int64(min(u, math.MaxInt64)), u < noLimit, nil
}

// statValue finds the number behind a key at the begin of a line.
func statValue(b []byte, key string) (int64, bool) {
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte(key))
		if !ok || len(rest) == 0 || rest[0] != ' ' {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(string(fields[0]), 10, 64)
		return n, err == nil && n >= 0
	}
	return 0, false
}

type cgroupPath struct {
	path  string
	found bool
}

// cgroupPaths finds the cgroup of the process in the unified hierarchy and in the one of the memory
// controller.
func cgroupPaths(b []byte) (v2, v1 cgroupPath) {
	for line := range strings.Lines(string(b)) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, name, ok := strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(name, "/") {
			continue
		}
		if id == "0" && controllers == "" {
			v2 = cgroupPath{name, true}
		} else if hasOption(controllers, "memory") {
			v1 = cgroupPath{name, true}
		}
	}
	return v2, v1
}

func hasOption(list, option string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if o == option {
			return true
		}
	}
	return false
}
