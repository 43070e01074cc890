//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a tmpfs of that size, or skips the test.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a tmpfs takes root")
	}
	dir := t.TempDir()
	if err := unix.Mount("leat-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Skipf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return dir
}

// fewInodes mounts a tmpfs with that many inodes, or skips the test.
func fewInodes(t *testing.T, inodes int) string {
	t.Helper()
	dir := smallDisk(t, 64*mib)
	if err := unix.Mount("leat-test", dir, "tmpfs", unix.MS_REMOUNT,
		fmt.Sprintf("size=%d,mode=0700,nr_inodes=%d", 64*mib, inodes)); err != nil {
		t.Skipf("a tmpfs with few inodes: %v", err)
	}
	return dir
}

// fillInodes makes empty files until there is no inode left, and returns how many.
func fillInodes(t *testing.T, dir string) (n int) {
	t.Helper()
	for ; ; n++ {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint("filler-", n)))
		if errors.Is(err, unix.ENOSPC) {
			return n
		}
		must(t, err)
		must(t, f.Close())
	}
}

func TestNoInodes(t *testing.T) {
	for _, size := range []int64{100 * kib, 3 * mib} {
		t.Run(fmt.Sprintf("%d KiB", size/kib), func(t *testing.T) {
			dir := fewInodes(t, 400)
			s := small("inodes", size)
			const n = 8
			p := ok(Open(context.Background(), dir, quick(Options{})))(t)
			for i := range n {
				got(t, p, s, fmt.Sprint(i))
			}
			must(t, p.Close())
			fillInodes(t, dir)
			// As often as one likes, and several at the same time.
			rounds := 10
			if testing.Short() {
				rounds = 3
			}
			for range rounds {
				var open []*Pool
				for range 4 {
					open = append(open, ok(Open(context.Background(), dir, quick(Options{})))(t))
				}
				for _, p := range open {
					for i := range n {
						wantBytes(t, p.Prefetch(s, fmt.Sprint(i)), s, 0)
					}
				}
				for _, p := range open {
					must(t, p.Close())
				}
				fillInodes(t, dir)
			}
			if reads, _, _ := s.all(); reads != n {
				t.Errorf("the source was asked %d times for %d objects", reads, n)
			}
			// More than there are spare inodes for, while all is in use: an error that says what is
			// missing.
			var open []*Pool
			var used []*Ref
			for len(open) < 20 {
				p, err := Open(context.Background(), dir, quick(Options{}))
				if err != nil {
					if !errors.Is(err, unix.ENOSPC) {
						t.Error(err)
					}
					break
				}
				open = append(open, p)
				for i := range n {
					l := p.Prefetch(s, fmt.Sprint(i))
					wantBytes(t, l, s, 0)
					used = append(used, l)
				}
			}
			if len(open) != 4 {
				t.Errorf("%d processes could join, expected 4", len(open))
			}
			// What can't be staged is read from its source.
			l := open[0].PrefetchFile(s, "new")
			wantBytes(t, l, s, 0)
			for _, l := range used {
				l.Release()
			}
			for _, p := range open[1:] {
				must(t, p.Close())
			}
			if _, err := open[0].Trim(t.Context(), 0); err != nil {
				t.Error(err)
			}
			must(t, open[0].Close())
			p = pool(t, dir, Options{})
			if _, err := p.Trim(t.Context(), 0); err != nil {
				t.Error(err)
			}
			if u := wantDisk(t, p); u.Objects != 0 {
				t.Errorf("%d objects are left", u.Objects)
			}
		})
	}
}

func TestNoInodesNoSpares(t *testing.T) {
	for _, size := range []int64{100 * kib, 3 * mib} {
		t.Run(fmt.Sprintf("%d KiB", size/kib), func(t *testing.T) {
			dir := fewInodes(t, 400)
			s := small("inodes", size)
			p := ok(Open(context.Background(), dir, quick(Options{})))(t)
			for i := range 8 {
				got(t, p, s, fmt.Sprint(i))
			}
			must(t, p.Close())
			for _, path := range ok(filepath.Glob(filepath.Join(dir, "stage", "spare-*")))(t) {
				must(t, os.Remove(path))
			}
			fillInodes(t, dir)
			q := pool(t, dir, Options{})
			if u := wantDisk(t, q); size == 3*mib && u.Objects != 7 {
				t.Errorf("%d of 8 objects are left, expected 7", u.Objects)
			}
			got(t, q, s, "7")
		})
	}
}

func freeOf(t testing.TB, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * int64(st.Bsize)
}

// fillDisk writes a file until so much is left.
func fillDisk(t testing.TB, dir string, left int64) string {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f := ok(os.Create(path))(t)
	defer f.Close()
	b := make([]byte, 64*kib)
	for freeOf(t, dir) > left {
		if _, err := f.Write(b[:max(4096, min(int64(len(b)), freeOf(t, dir)-left))]); err != nil {
			break
		}
	}
	return path
}

func TestFullDiskReadsDirectly(t *testing.T) {
	for _, size := range []int64{100 * kib, 3 * mib} {
		for _, unknown := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d KiB unknown %v", size/kib, unknown), func(t *testing.T) {
				dir := smallDisk(t, 24*mib)
				var warned warnings
				s := newSource("full")
				s.missing = func(string) *object { return &object{size: size, unknown: unknown} }
				p := pool(t, dir, Options{RangeBytes: mib, Logger: warned.logger()})
				var all []*Ref
				n := int(40 * mib / size) // more than there is space for, all in use
				for i := range n {
					all = append(all, p.Prefetch(s, fmt.Sprint(i)))
				}
				for _, l := range all {
					wantBytes(t, l, s, 0)
				}
				c := p.Counters()
				if c.Errors != 0 || c.DiskFull == 0 || c.ReadThrough == 0 || warned.n.Load() == 0 {
					t.Errorf("counters: %+v, %d warnings", c, warned.n.Load())
				}
				wantDisk(t, p)
				// Objects that nobody waits for do not have the source asked again and again.
				must(t, p.Wait(within(t, time.Minute)))
				p.mu.Lock()
				if len(p.waiting) > 0 || len(p.elsewhere) > 0 || p.queue.length > 0 {
					t.Errorf("%d objects wait for space, %d are queued", len(p.waiting), p.queue.length)
				}
				p.mu.Unlock()
				// What is used no more makes space.
				for _, l := range all {
					l.Release()
				}
				for i := range 5 {
					l := p.Prefetch(s, fmt.Sprint("new ", i))
					defer l.Release()
					wantBytes(t, l, s, 0)
					if stateOf(l) != staged {
						t.Errorf("object %d is %s", i, stateNames[stateOf(l)])
					}
				}
				wantDisk(t, p)
			})
		}
	}
}

func TestFullDiskDoesNotRepeatRequests(t *testing.T) {
	dir := smallDisk(t, 16*mib)
	s := small("asked", mib)
	p := pool(t, dir, Options{})
	path := fillDisk(t, dir, 0)
	var all []*Ref
	for i := range 5 {
		all = append(all, p.Prefetch(s, fmt.Sprint(i)))
	}
	must(t, p.Wait(within(t, time.Minute)))
	if reads, _, _ := s.all(); reads > 10 {
		t.Errorf("the source was asked %d times for 5 objects that nobody waits for", reads)
	}
	must(t, os.Remove(path))
	for _, l := range all {
		wantBytes(t, l, s, 0)
		if stateOf(l) != staged {
			t.Errorf("with space again an object is %s", stateNames[stateOf(l)])
		}
	}
}

func TestDiskFilledByOthers(t *testing.T) {
	dir := smallDisk(t, 64*mib)
	s := small("others", 3*mib)
	p := pool(t, dir, Options{RangeBytes: mib, Workers: 4})
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { // fills and empties it
		for !stop.Load() {
			path := fillDisk(t, dir, 0)
			time.Sleep(time.Millisecond)
			_ = os.Remove(path)
			time.Sleep(time.Millisecond)
		}
	})
	n := 300
	if testing.Short() {
		n = 60
	}
	for i := range n {
		name := fmt.Sprint(i % 40)
		if !bytes.Equal(got(t, p, s, name), content(name, 0, 3*mib)) {
			t.Fatalf("%s is another", name)
		}
	}
	stop.Store(true)
	wg.Wait()
	c := p.Counters()
	if c.Errors != 0 {
		t.Errorf("counters: %+v", c)
	}
	t.Logf("%d copies were given up, %d read through, %d evicted", c.DiskFull, c.ReadThrough, c.Evicted)
	must(t, p.Wait(within(t, time.Minute)))
	wantDisk(t, p)
}

func TestIndexCannotGrow(t *testing.T) {
	dir := smallDisk(t, 64*mib)
	s := small("index", 100)
	p := pool(t, dir, Options{})
	got(t, p, s, "first")
	fillDisk(t, dir, 0)
	for i := range 300 {
		name := fmt.Sprint(i)
		if !bytes.Equal(got(t, p, s, name), content(name, 0, 100)) {
			t.Fatalf("%s is another", name)
		}
	}
	if c := p.Counters(); c.Errors != 0 {
		t.Errorf("counters: %+v", c)
	}
}

func TestOpenOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 16*mib)
	fillDisk(t, dir, 0)
	p, err := Open(context.Background(), filepath.Join(dir, "new"), quick(Options{}))
	if err == nil {
		must(t, p.Close())
		t.Error("the index lies on a full disk")
	} else {
		wantErr(t, err, ErrNoSpace)
		wantErr(t, err, unix.ENOSPC)
	}
}

func TestOpenOnFullDiskEvicts(t *testing.T) {
	for _, size := range []int64{100 * kib, 3 * mib} {
		t.Run(fmt.Sprintf("%d KiB", size/kib), func(t *testing.T) {
			dir := smallDisk(t, 32*mib)
			s := small("open", size)
			p := pool(t, dir, Options{})
			used := p.Prefetch(s, "used")
			wantBytes(t, used, s, 0)
			path := fillDisk(t, dir, 0)
			if q, err := Open(context.Background(), dir, quick(Options{})); err == nil {
				must(t, q.Close())
				t.Error("opened where all is in use")
			} else if !errors.Is(err, unix.ENOSPC) {
				t.Errorf("the error is %v", err)
			}
			must(t, os.Remove(path))
			for i := range 12 * mib / size {
				got(t, p, s, fmt.Sprint(i))
			}
			before := ok(p.Usage())(t)
			fillDisk(t, dir, 0)
			q := pool(t, dir, Options{})
			after := wantDisk(t, q)
			if after.Bytes >= before.Bytes || after.Bytes < before.Bytes-max(2*mib, size) {
				t.Errorf("%d KiB of %d KiB are left", after.Bytes/kib, before.Bytes/kib)
			}
			if !q.Has(s, "used") {
				t.Error("what is in use was evicted")
			}
			wantBytes(t, used, s, 0)
			got(t, q, s, "more")
		})
	}
}

func TestMinFree(t *testing.T) {
	for _, size := range []int64{100 * kib, 3 * mib, 7 * mib} {
		for _, unknown := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d KiB unknown %v", size/kib, unknown), func(t *testing.T) {
				dir := smallDisk(t, 32*mib)
				s := newSource("minfree")
				s.missing = func(string) *object { return &object{size: size, unknown: unknown} }
				p := pool(t, dir, Options{MinFree: 0.25, Workers: 1})
				var all []*Ref
				least := freeOf(t, dir)
				for i := range int(50 * mib / size) {
					l := p.Prefetch(s, fmt.Sprint(i))
					all = append(all, l)
					wantBytes(t, l, s, 0)
					least = min(least, freeOf(t, dir))
				}
				// What is taken for names of files and the like, and a buffer of an object of
				// unknown size.
				if least < 8*mib-mib {
					t.Errorf("only %d KiB of the %d were left free", least/kib, 8*mib/kib)
				}
				if c := p.Counters(); c.ReadThrough == 0 || c.Errors != 0 {
					t.Errorf("counters: %+v", c)
				}
				// Others fill it: what nobody uses makes space, but no more than there is.
				for _, l := range all {
					l.Release()
				}
				before := ok(p.Usage())(t).Bytes
				fillDisk(t, dir, 2*mib)
				l := p.Prefetch(s, "last")
				defer l.Release()
				wantBytes(t, l, s, 0)
				if free := freeOf(t, dir); free < 7*mib {
					t.Errorf("%d KiB are free, the stage had %d", free/kib, before/kib)
				}
			})
		}
	}
}
