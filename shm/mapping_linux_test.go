package shm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"leat/internal/fault"
	"leat/ndarray"
)

// hugeShared returns how many bytes of this process are huge pages of shared memory.
func hugeShared(t *testing.T) (bytes int64) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/smaps"))(t))) {
		var kib int64
		if _, err := fmt.Sscanf(line, "ShmemPmdMapped: %d kB", &kib); err == nil {
			bytes += kib << 10
		}
	}
	return bytes
}

// TestHugePages compares new arrays with huge pages, without them, and with those that fail after
// some, and reads them in another process.
func TestHugePages(t *testing.T) {
	isolate(t)
	defer hugeFailed.Store(false)
	defer fault.Set(nil)
	random := rand.New(rand.NewPCG(3, 4))
	sizes := []int{1, hugeBytes - pageSize - 1, hugeBytes - pageSize, hugeBytes - pageSize + 1,
		checkEvery + 2*hugeBytes, 1 + random.IntN(5*hugeBytes), 1 + random.IntN(5*hugeBytes)}
	for fails := range 3 { // at which request; 0: at none
		for k, n := range sizes {
			hugeFailed.Store(false)
			requests := 0
			fault.Set(func(point string) error {
				if point == "shm.huge" {
					if requests++; requests == fails {
						return errors.New("no huge pages")
					}
				}
				return nil
			})
			s := newSharer(t, &Options{Place: Memfd})
			a := must(s.New(ndarray.Uint8, n))(t)
			mem := must(Slice[uint8](a))(t)
			if zeros := bytes.Count(mem, []byte{0}); len(mem) != n || zeros != n {
				t.Fatalf("%d bytes, request %d fails: array of %d bytes, %d are 0", n, fails, len(mem), zeros)
			}
			if fails == 0 && n == checkEvery+2*hugeBytes && !hugeFailed.Load() && hugeShared(t) < checkEvery {
				t.Errorf("%d bytes: only %d are in huge pages", n, hugeShared(t))
			}
			for i := range mem {
				mem[i] = byte(i>>12 + i)
			}
			h := must(a.Handle())(t)
			mode := []Mode{ReadWrite, CopyOnWrite}[k%2]
			if got, expected := elsewhere(t, mode, h)[0], fmt.Sprintf("%x", a.digest()); got != expected {
				t.Errorf("%d bytes, request %d fails, mode %v: another process reads %s, expected %s", n, fails, mode, got,
					expected)
			}
			check(t, a.Close())
			check(t, s.Close())
		}
	}
	if left := hugeShared(t); left != 0 {
		t.Errorf("%d bytes are still mapped", left)
	}
}

// TestHugePagesLackMemory: the free memory is checked while huge pages are taken, and what is taken
// does not count as needed.
func TestHugePagesLackMemory(t *testing.T) {
	mem := must(createMemfd(checkEvery+2*hugeBytes, 1<<20))(t)
	defer mem.close()
	var asked []int64
	lack := errors.New("lack of memory")
	taken, err := takeHuge(mem.mem, checkEvery+hugeBytes+1, func(rest int64) error {
		asked = append(asked, rest)
		return lack
	})
	if hugeFailed.Load() {
		t.Skip("this kernel has no huge pages for shared memory")
	}
	if !errors.Is(err, lack) || taken != checkEvery || len(asked) != 1 || asked[0] != hugeBytes+1 {
		t.Errorf("took %d bytes, asked for %v, error %v", taken, asked, err)
	}
}
