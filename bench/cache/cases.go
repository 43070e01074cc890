package cache

import (
	"fmt"
	"regexp"
	"time"
)

const (
	large = 110 << 10 // an image of a training set
	small = 1 << 10
)

// sizes are how much is measured.
type sizes struct {
	only      *regexp.Regexp // what of the lines to be measured; nil: all of them
	runs      int
	seconds   time.Duration // that each measurement takes
	processes []int
	large     int64 // entries of 110 KiB to be read
	small     int64 // entries of 1 KiB
	shared    int64 // entries of 110 KiB to be read while another process puts
	openSlots int64
	// most bytes that a measurement of puts writes: less than what makes the kernel write back, 10
	// % of the memory
	putBytes   int64
	freshLarge int64 // slots to put into; powers of two
	freshSmall int64
}

func fullSize(runs int, seconds time.Duration) sizes {
	return sizes{
		runs: runs, seconds: seconds, processes: []int{1, 2, 4, 8},
		large: 2000, small: 100_000, shared: 500, openSlots: 1_000_000,
		putBytes: 1 << 30, freshLarge: 1 << 16, freshSmall: 1 << 20,
	}
}

func quickSize() sizes {
	return sizes{
		runs: 1, seconds: 20 * time.Millisecond, processes: []int{1, 2},
		large: 50, small: 500, shared: 20, openSlots: 10_000,
		putBytes: 64 << 20, freshLarge: 1 << 10, freshSmall: 1 << 14,
	}
}

func (s sizes) wanted(what string) bool { return s.only == nil || s.only.MatchString(what) }

// row is a line of the table.
type row struct {
	key  string // of the targets
	what string
	task task
}

// rows are all but the opening and the mixed ones, which are two lines each.
func (s sizes) rows() (all []row) {
	add := func(key, what string, t task) {
		for _, n := range s.processes {
			t.Processes, t.For = n, s.seconds
			if what := fmt.Sprintf("%s, %s", what, processes(n)); s.wanted(what) {
				all = append(all, row{fmt.Sprintf("%s %d", key, n), what, t})
			}
		}
	}
	read := func(op string, size int, entries int64) task { return task{Op: op, Size: size, Entries: entries} }
	put := func(size int, fresh int64) task {
		return task{Op: opPut, Size: size, Fresh: fresh, Limit: min(fresh, s.putBytes/int64(size))}
	}
	add("view large", "get 110 KiB by view", read(opView, large, s.large))
	add("into large", "get 110 KiB by copy into the same memory", read(opInto, large, s.large))
	add("copy large", "get 110 KiB by copy into new memory", read(opCopy, large, s.large))
	add("recycled large", "get 110 KiB by copy into recycled memory", read(opRecycled, large, s.large))
	add("view small", "get 1 KiB by view", read(opView, small, s.small))
	add("copy small", "get 1 KiB by copy into new memory", read(opCopy, small, s.small))
	add("recycled small", "get 1 KiB by copy into recycled memory", read(opRecycled, small, s.small))
	add("fill small", "GetOrFill of 1 KiB that is there", read(opFill, small, s.small))
	add("put large", "put 110 KiB", put(large, s.freshLarge))
	add("put small", "put 1 KiB", put(small, s.freshSmall))
	return all
}

const mixedReaders = 4

// mixedWhat is the line that rows does not have.
func mixedWhat() string {
	return fmt.Sprintf("put 110 KiB by one process, while %d others get by copy", mixedReaders)
}
func (s sizes) openWhat() string {
	return fmt.Sprintf("time to open %s slots", count(float64(s.openSlots)))
}

// mixed is one writer against readers that copy.
func (s sizes) mixed() task {
	return task{
		Op: opMixed, Size: large, Entries: s.shared, Fresh: s.freshLarge / 2, Processes: 1 + mixedReaders,
		For:   s.seconds,
		Limit: min(s.freshLarge/2, s.putBytes/large),
	}
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
