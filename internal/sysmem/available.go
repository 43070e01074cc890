package sysmem

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// Free is the memory that may still be taken.
type Free struct {
	Bytes int64  // without the reserve below the limit; never negative
	Limit string // the tightest limit: "MemAvailable of the machine", "memory.max of cgroup /a/b"
}

// maxReserve is kept free below each limit, or a sixteenth of a small one: for page tables, for
// what other processes take between the check and the store, and because a cgroup at its limit only
// swaps and reclaims.
const maxReserve = 128 << 20

func reserve(limit int64) int64 { return min(maxReserve, limit/16) }

// readAvailable is Available with root put before the paths of /proc and /sys.
func readAvailable(root string, need int64) (Free, error) {
	r := availableReader{files: files{root}, need: need, free: Free{Bytes: math.MaxInt64}}
	if err := r.machine(); err != nil {
		return Free{}, err
	}
	if err := r.eachCgroup(r.cgroup); err != nil {
		return Free{}, err
	}
	if r.free.Limit == "" {
		return Free{}, fmt.Errorf("free memory is unknown: no MemAvailable in %s/proc/meminfo and no cgroup with a limit", root)
	}
	return r.free, nil
}

type availableReader struct {
	files
	need int64
	free Free
}

// lower replaces the result by a tighter limit.
func (r *availableReader) lower(bytes int64, limit string) {
	if bytes = max(bytes, 0); bytes < r.free.Bytes {
		r.free = Free{bytes, limit}
	}
}

func (r *availableReader) machine() error {
	b, err := r.read("/proc/meminfo")
	if b == nil || err != nil {
		return err
	}
	total, _ := statValue(b, "MemTotal:")
	free, ok := statValue(b, "MemAvailable:")
	if ok && total <= math.MaxInt64>>10 && free <= math.MaxInt64>>10 { // given in KiB
		r.lower(free<<10-reserve(total<<10), "MemAvailable of the machine")
	}
	return nil
}

// cgroup lowers the result to what one cgroup leaves. Pages of files that it could drop count as
// free only where less than need is free without them, since the kernel takes long to count them.
func (r *availableReader) cgroup(dir, name string, v *cgroupVersion) error {
	limit, ok, err := r.number(dir + "/" + v.limit)
	if !ok || err != nil {
		return err
	}
	usage, ok, err := r.number(dir + "/" + v.usage)
	if !ok || err != nil {
		return err
	}
	free := limit - usage - reserve(limit)
	if free < r.need && free < r.free.Bytes {
		stat, err := r.read(dir + "/memory.stat")
		if err != nil {
			return err
		}
		if n, ok := statValue(stat, v.inactive); ok {
			free += min(n, usage)
		}
	}
	r.lower(free, v.limit+" of cgroup "+name)
	return nil
}

// statValue returns the number behind a key at the start of a line.
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
