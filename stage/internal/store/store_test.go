//go:build linux

package store

import (
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWriteReadFree(t *testing.T) {
	inAllWays(t, func(t *testing.T, way string) {
		dir := t.TempDir()
		other := open(t, dir)
		s := ok(openAt(filepath.Join(dir, "stage"), func() (uint64, error) { return numbers.Add(1), nil }))(t)
		if packs := !strings.Contains(way, "no punch"); s.Packs() != packs {
			t.Errorf("packs: %v", s.Packs())
		}
		for _, size := range []int64{0, 1, 4096, 4097, 100 << 10, PackBelow - 1, PackBelow, 3<<20 + 1} {
			want := object(7, size)
			p := kept(t, s, want, ".tif")
			if p.Packed() != (s.Packs() && size < PackBelow) {
				t.Errorf("%d bytes lie at %+v", size, p)
			}
			must(t, check(s, p, want))
			must(t, check(other, p, want))
			if path := s.Path(p); !p.Packed() && filepath.Ext(path) != ".tif" {
				t.Errorf("the file is %s", path)
			}
			if taken := space(t, s); size > 0 && taken != Charge(size) {
				t.Errorf("%d bytes take %d", size, taken)
			}
			must(t, other.Free(p, size))
			must(t, s.Free(p, size))
			if taken := space(t, s); taken != 0 {
				t.Errorf("%d bytes freed leave %d", size, taken)
			}
		}
		must(t, s.Close())
		wantNothing(t, other)
	})
}

func TestCloseWithoutCommit(t *testing.T) {
	inAllWays(t, func(t *testing.T, _ string) {
		s := open(t, t.TempDir())
		for _, size := range []int64{10_000, 2 << 20, -1} {
			d := ok(s.Create(size, ""))(t)
			_, err := d.WriteAt(object(1, 9000), 100)
			must(t, err)
			must(t, d.Close())
			must(t, d.Close())
			_, err = d.WriteAt([]byte("late"), 0)
			wantErr(t, err, fs.ErrClosed)
			wantErr(t, d.Commit(0), fs.ErrClosed)
			if taken := space(t, s); taken != 0 {
				t.Errorf("size %d: %d bytes are taken", size, taken)
			}
			if _, err := s.ReadAt(d.Place(), make([]byte, 1), 0); !d.Place().Packed() {
				wantErr(t, err, fs.ErrNotExist)
			}
		}
	})
}

func TestUnknownOrWrongSize(t *testing.T) {
	inAllWays(t, func(t *testing.T, _ string) {
		s := open(t, t.TempDir())
		for _, announced := range []int64{-1, 5 << 20, 2 << 20} {
			want := object(2, 3<<20+5)
			d := ok(s.Create(announced, ""))(t)
			_, err := d.WriteAt(want, 0)
			must(t, err)
			must(t, d.Commit(int64(len(want))))
			wantErr(t, d.Commit(1), fs.ErrClosed)
			must(t, d.Close())
			must(t, check(s, d.Place(), want))
			if taken := space(t, s); taken != Charge(int64(len(want))) {
				t.Errorf("announced as %d: %d bytes are taken", announced, taken)
			}
			must(t, s.Free(d.Place(), int64(len(want))))
		}
		d := ok(s.Create(-1, ""))(t)
		if err := d.Commit(1); err == nil {
			t.Error("a byte that nobody wrote")
		}
		must(t, d.Close())
		wantNothing(t, s)
	})
}

func TestPackedObjectCannotGrow(t *testing.T) {
	s := open(t, t.TempDir())
	a, b := ok(s.Create(5000, ""))(t), ok(s.Create(5000, ""))(t)
	want := object(3, 5000)
	_, err := b.WriteAt(want, 0)
	must(t, err)
	must(t, b.Commit(5000))
	for _, at := range []int64{1, 5000, 1 << 40, math.MaxInt64, -1} {
		if _, err := a.WriteAt(want, at); err == nil {
			t.Errorf("written at %d", at)
		}
	}
	if a.Commit(5001) == nil || a.Commit(-1) == nil {
		t.Error("committed")
	}
	must(t, a.Close())
	must(t, b.Close())
	must(t, check(s, b.Place(), want))
}

func TestInvalidReads(t *testing.T) {
	s := open(t, t.TempDir())
	p := kept(t, s, object(1, 3<<20), "")
	b := make([]byte, 10)
	if n, err := s.ReadAt(p, b, 3<<20-4); n != 4 || err != io.EOF {
		t.Errorf("%d bytes at the end, %v", n, err)
	}
	small := kept(t, s, object(1, 100), "")
	for _, at := range []int64{-1, math.MaxInt64} {
		for _, p := range []Place{p, small} {
			if _, err := s.ReadAt(p, b, at); err == nil {
				t.Errorf("a byte at %d", at)
			}
		}
	}
	for _, p := range []Place{{ID: 1 << 60}, {ID: 1 << 60, Offset: File}} {
		_, err := s.ReadAt(p, b, 0)
		wantErr(t, err, fs.ErrNotExist)
		must(t, s.Free(p, 10))
	}
	for _, p := range []Place{{}, {ID: 5, Offset: 7}} {
		if _, err := s.ReadAt(p, b, 0); err == nil {
			t.Errorf("read at %+v", p)
		}
		if s.Free(p, 1) == nil {
			t.Errorf("freed at %+v", p)
		}
		if _, err := s.OpenFile(p); err == nil {
			t.Errorf("opened at %+v", p)
		}
	}
	if _, err := s.OpenFile(small); err == nil {
		t.Error("a packed object has a file")
	}
	for _, size := range []int64{-1, SegmentSize + 1, math.MaxInt64} {
		if s.Free(small, size) == nil {
			t.Errorf("freed %d bytes", size)
		}
	}
	if _, err := s.CreateFile(1, "/../../x"); err == nil {
		t.Error("a name that leads elsewhere")
	}
	must(t, check(s, small, object(1, 100)))
}

func TestNumberInUse(t *testing.T) {
	inAllWays(t, func(t *testing.T, _ string) {
		dir := t.TempDir()
		s := open(t, dir)
		small, large := kept(t, s, object(1, 100), ""), kept(t, s, object(2, 2<<20), "")
		n := min(small.ID, large.ID) - 1
		again := ok(openAt(filepath.Join(dir, "stage"), func() (uint64, error) { n++; return n, nil }))(t)
		for range 3 {
			for _, size := range []int64{100, 2 << 20} {
				d, err := store(again, object(9, size), "")
				if err != nil {
					wantErr(t, err, fs.ErrExist)
					continue
				}
				must(t, d.Close())
			}
		}
		must(t, check(s, small, object(1, 100)))
		must(t, check(s, large, object(2, 2<<20)))
		must(t, again.Close())
	})
}

func TestConcurrentUse(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 40
	}
	inAllWays(t, func(t *testing.T, way string) {
		dir := inMemory(t)
		s := open(t, dir)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				if err := churn(s, uint64(g), n); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if taken := space(t, s); taken != 0 {
			t.Errorf("%d bytes are taken: %v", taken, files(t, s))
		}
		if left := files(t, s); len(left) > maxActive { // the active segments
			t.Errorf("left: %v", left)
		}
	})
}

// TestOpenWritersHaveSegmentsOfTheirOwn writes with more Writers than there are segments.
func TestOpenWritersHaveSegmentsOfTheirOwn(t *testing.T) {
	defer func(n int) { maxActive = n }(maxActive)
	maxActive = 3
	s := open(t, inMemory(t))
	if !s.Packs() {
		t.Skip("nothing is packed here")
	}
	const size = 100_000
	var all []*Writer
	used := map[uint64]int{}
	for i := range 2 * maxActive {
		d := ok(s.Create(size, ""))(t)
		all = append(all, d)
		used[d.Place().ID]++
		if want := min(i+1, maxActive); len(used) != want {
			t.Errorf("%d Writers have %d segments, expected %d", i+1, len(used), want)
		}
	}
	for id, n := range used {
		if n != 2 {
			t.Errorf("segment %d has %d Writers", id, n)
		}
	}
	var wg sync.WaitGroup
	for i, d := range all {
		wg.Go(func() {
			if _, err := d.WriteAt(object(uint64(i), size), 0); err != nil {
				t.Error(err)
			}
			if err := d.Commit(size); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, want := space(t, s), int64(len(all))*Charge(size); got != want {
		t.Errorf("%d bytes are taken, expected %d", got, want)
	}
	for i, d := range all {
		must(t, d.Close())
		must(t, check(s, d.Place(), object(uint64(i), size)))
		must(t, s.Free(d.Place(), size))
	}
	// Where no Writer is open, the next object needs no segment of its own.
	for range 2 {
		d := ok(s.Create(size, ""))(t)
		must(t, d.Close())
		if used[d.Place().ID] == 0 {
			t.Error("a segment was begun though others have no Writers")
		}
	}
	if taken := space(t, s); taken != 0 {
		t.Errorf("%d bytes are taken: %v", taken, files(t, s))
	}
}

// churn stores, checks and frees objects at random, and frees all in the end.
func churn(s *Store, seed uint64, n int) error {
	type stored struct {
		p    Place
		seed uint64
		size int64
	}
	r := rand.New(rand.NewPCG(seed, 1))
	var all []stored
	free := func(i int) error {
		o := all[i]
		all[i] = all[len(all)-1]
		all = all[:len(all)-1]
		if err := check(s, o.p, object(o.seed, o.size)); err != nil {
			return err
		}
		if err := s.Free(o.p, o.size); err != nil {
			return err
		}
		return s.Free(o.p, o.size)
	}
	for range n {
		switch k := r.IntN(10); {
		case k < 6:
			size := r.Int64N(200_000)
			switch r.IntN(20) {
			case 0:
				size = PackBelow + r.Int64N(PackBelow)
			case 1, 2, 3:
				size = PackBelow - r.Int64N(100_000)
			}
			o := stored{seed: r.Uint64(), size: size}
			d, err := store(s, object(o.seed, size), "")
			if err != nil {
				return err
			}
			if err := d.Close(); err != nil {
				return err
			}
			o.p = d.Place()
			all = append(all, o)
		case k < 9 && len(all) > 0:
			if err := free(r.IntN(len(all))); err != nil {
				return err
			}
		case len(all) > 0:
			o := all[r.IntN(len(all))]
			if err := check(s, o.p, object(o.seed, o.size)); err != nil {
				return err
			}
		}
	}
	for len(all) > 0 {
		if err := free(len(all) - 1); err != nil {
			return err
		}
	}
	return nil
}

func TestSegmentRemoval(t *testing.T) {
	s := open(t, t.TempDir())
	if !s.Packs() {
		t.Skip("the file system does not give back what is punched")
	}
	const size = PackBelow - 1
	var all []Place
	want := object(5, size)
	for range 2*SegmentSize/PackBelow + 1 {
		all = append(all, kept(t, s, want, ""))
	}
	segments := map[uint64]int{}
	for _, p := range all {
		segments[p.ID]++
	}
	if len(segments) != 3 {
		t.Fatalf("%d segments", len(segments))
	}
	held := ok(s.Create(100, ""))(t) // in the third
	for _, p := range all {
		must(t, check(s, p, want))
		must(t, s.Free(p, size))
		segments[p.ID]--
		_, err := os.Stat(s.Path(p))
		if gone := err != nil; gone != (segments[p.ID] == 0 && p.ID != held.Place().ID) {
			t.Errorf("segment %d with %d objects: gone %v", p.ID, segments[p.ID], gone)
		}
	}
	must(t, held.Close())
}

func TestDescriptorCache(t *testing.T) {
	s := open(t, inMemory(t))
	s.open.max = 4
	before := descriptorsOpen(t)
	var all []Place
	for i := range 20 {
		all = append(all, kept(t, s, object(uint64(i), 1000), ""))
		s.mu.Lock() // the next object begins a segment
		s.active[0].taken = s.active[0].size
		s.mu.Unlock()
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 500 {
				i := r.IntN(len(all))
				if err := check(s, all[i], object(uint64(i), 1000)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := descriptorsOpen(t) - before; n > 4+1 { // and the active segment
		t.Errorf("%d descriptors", n)
	}
	for _, p := range all {
		must(t, s.Free(p, 1000))
	}
	if n := len(s.open.all); n > 1 {
		t.Errorf("%d descriptors of segments that are gone", n)
	}
}

func TestClose(t *testing.T) {
	inAllWays(t, func(t *testing.T, _ string) {
		before := descriptorsOpen(t)
		s := ok(openAt(filepath.Join(t.TempDir(), "stage"), func() (uint64, error) { return numbers.Add(1), nil }))(t)
		for _, size := range []int64{100, 2 << 20} {
			d := ok(s.Create(size, ""))(t)
			if s.Close() == nil {
				t.Error("closed under a draft")
			}
			_, err := d.WriteAt([]byte("x"), 0)
			must(t, err)
			must(t, d.Commit(1))
			must(t, d.Close())
			must(t, check(s, d.Place(), []byte("x")))
		}
		must(t, s.Close())
		if n := descriptorsOpen(t); n != before {
			t.Errorf("%d descriptors more", n-before)
		}
	})
}

func TestFullDisk(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			dir := smallFS(t, kind)
			s := open(t, dir)
			if !s.Packs() {
				t.Fatal("it does not pack")
			}
			var stat unix.Statfs_t
			must(t, unix.Statfs(dir, &stat))
			total := int64(stat.Blocks) * int64(stat.Bsize)
			_, err := s.Create(total+1, "") // known in advance
			if !Full(err) || !strings.Contains(err.Error(), dir) {
				t.Errorf("a file of %d bytes: %v", total+1, err)
			}
			d := ok(s.Create(-1, ""))(t)
			for at := int64(0); ; at += 1 << 20 {
				if _, err = d.WriteAt(object(1, 1<<20), at); err != nil || at > total {
					break
				}
			}
			if !Full(err) {
				t.Errorf("a file that grows: %v", err)
			}
			must(t, d.Close())
			var all []Place
			want := object(2, 300_000)
			for {
				var d *Writer
				if d, err = store(s, want, ""); err != nil || len(all) > 1000 {
					break
				}
				must(t, d.Close())
				all = append(all, d.Place())
			}
			if !Full(err) || len(all) == 0 {
				t.Errorf("%d objects: %v", len(all), err)
			}
			if again := open(t, dir); !again.Packs() { // on a full disk
				t.Error("it does not pack")
			}
			for _, p := range all {
				must(t, check(s, p, want))
				must(t, s.Free(p, int64(len(want))))
			}
			if taken := space(t, s); taken != 0 {
				t.Errorf("%d bytes are taken", taken)
			}
			must(t, check(s, kept(t, s, want, ""), want))
		})
	}
}

// smallFS mounts a file system of a few MiB.
func smallFS(t *testing.T, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if kind == "tmpfs" {
		if err := unix.Mount("leat-test", dir, "tmpfs", 0, "size=4m"); err != nil {
			t.Skipf("mounting tmpfs: %v", err)
		}
	} else {
		image := filepath.Join(t.TempDir(), "image")
		must(t, os.WriteFile(image, nil, 0o600))
		must(t, os.Truncate(image, 16<<20))
		if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", "-b", "4096", image).CombinedOutput(); err != nil {
			t.Skipf("mkfs.ext4: %v\n%s", err, out)
		}
		if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
			t.Skipf("mounting ext4: %v\n%s", err, out)
		}
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	return dir
}

func TestRetryFailedWrite(t *testing.T) {
	inAllWays(t, func(t *testing.T, way string) {
		s := open(t, t.TempDir())
		for _, size := range []int64{1000, 2 << 20} {
			d := ok(s.Create(size, ""))(t)
			setWay(way, func(point string) error {
				if point == "stage.write" {
					return unix.ENOSPC
				}
				return nil
			})
			_, err := d.WriteAt(object(1, size), 0)
			if wantErr(t, err, unix.ENOSPC); !Full(err) {
				t.Error("not taken for a full disk")
			}
			setWay(way, func(string) error { return nil })
			_, err = d.WriteAt(object(1, size), 0)
			must(t, err)
			must(t, d.Commit(size))
			must(t, d.Close())
			must(t, check(s, d.Place(), object(1, size)))
			must(t, s.Free(d.Place(), size))
		}
	})
	t.Run("space in advance", func(t *testing.T) {
		s := open(t, t.TempDir())
		before := descriptorsOpen(t)
		failAt(t, "stage.allocate", unix.ENOSPC)
		_, err := s.Create(2<<20, "")
		wantErr(t, err, unix.ENOSPC)
		if n := descriptorsOpen(t); n != before {
			t.Errorf("%d descriptors more", n-before)
		}
		wantNothing(t, s)
	})
}
