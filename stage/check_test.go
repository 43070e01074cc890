//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"leat/objstore"
)

func TestSizesAroundRanges(t *testing.T) {
	t.Parallel()
	s := newSource("sizes")
	var names []string
	for _, near := range []int64{0, 4096, bufferSize, mib, 3 * mib} {
		for d := int64(-2); d <= 2; d++ {
			if near+d < 0 {
				continue
			}
			for _, unknown := range []bool{false, true} {
				name := fmt.Sprint(near+d, " ", unknown)
				s.put(name, object{size: near + d, unknown: unknown, noETag: d == 0})
				names = append(names, name)
			}
		}
	}
	for _, how := range []Options{{RangeBytes: mib, Ranges: 3}, {MaxFiles: 1, RangeBytes: mib}} {
		p := pool(t, inMemory(t), how)
		if how.MaxFiles == 1 { // all are read through
			l := p.Put([]byte("x"), "x")
			must(t, p.Wait(t.Context()))
			defer l.Release()
		}
		for _, name := range names {
			l := p.Prefetch(s, name)
			wantBytes(t, l, s, 0)
			if st := stateOf(l); (st == staged) != (how.MaxFiles == 0) {
				t.Errorf("%s is %s", name, stateNames[st])
			}
			l.Release()
		}
		if n := p.Counters(); n.Errors != 0 || n.Retries != 0 {
			t.Errorf("counters: %+v", n)
		}
	}
}

func TestParallelRequests(t *testing.T) {
	t.Parallel()
	s := newSource("parallel").put("a", object{size: 20*mib + 1})
	s.delay = 10 * time.Millisecond
	p := pool(t, inMemory(t), Options{RangeBytes: mib, Ranges: 4})
	l := p.Prefetch(s, "a")
	wantBytes(t, l, s, 0)
	if s.most < 2 || s.most > 5 { // the first one is read to its end and not closed yet
		t.Errorf("%d requests at the same time", s.most)
	}
	if reads, _, given := s.count("a"); reads != 21 || given != 20*mib+1 {
		t.Errorf("%d requests of %d bytes", reads, given)
	}
	l.Release()
}

func TestWrongSize(t *testing.T) {
	t.Parallel()
	sizes := []int64{1000, 2*mib + 5, bufferSize}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		for _, lie := range []int64{-size, -size / 2, -1, 1, 100, mib, math.MaxInt64 - size} {
			if size+lie < 0 {
				continue
			}
			for _, how := range []string{"staged", "read through", "Get"} {
				s := newSource("lies").put("a", object{size: size, lie: lie})
				o := Options{RangeBytes: mib}
				if how == "read through" {
					o.MaxFiles = 1
				}
				p := pool(t, inMemory(t), o)
				filler := p.Put([]byte("x"), "x")
				must(t, p.Wait(t.Context()))
				if how != "read through" {
					filler.Release()
				}
				var err error
				var b []byte
				if how == "Get" {
					b, _, err = p.ReadDirect(within(t, time.Minute), s, "a")
				} else {
					b, err = p.Prefetch(s, "a").Bytes(within(t, time.Minute))
				}
				// A request for a range gets no more than the range: what is behind the announced
				// end can't be seen.
				if err == nil && !(lie < 0 && size+lie > 0 && how == "staged" && bytes.Equal(b,
					content("a", 0, size+lie))) {
					t.Errorf("%s: %d bytes of %d that are announced as %d, without an error", how, len(b), size,
						size+lie)
				}
				filler.Release()
				if how == "staged" && err != nil {
					soon(t, "its space being free", func() bool { return ok(p.Usage())(t).Bytes == 0 })
					wantDisk(t, p)
				}
			}
		}
	}
}

func TestStoreChecksum(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1000, mib + 5} {
		for _, c := range []struct {
			md5, crc sum
			good     bool
		}{{right, none, true}, {none, right, true}, {right, right, true}, {wrong, none, false}, {none, wrong, false},
			{right, wrong, false}} {
			for _, unknown := range []bool{false, true} {
				for _, how := range []string{"staged", "read through", "Get"} {
					what := fmt.Sprintf("%s: MD5 %d, CRC %d, %d bytes, unknown size %v", how, c.md5, c.crc, size,
						unknown)
					s := newSource("sums").put("a", object{size: size, md5: c.md5, crc: c.crc, unknown: unknown})
					o := Options{RangeBytes: mib}
					if how == "read through" {
						o.MaxFiles = 1
					}
					p := pool(t, inMemory(t), o)
					filler := p.Put([]byte("x"), "x")
					must(t, p.Wait(t.Context()))
					var err error
					var b []byte
					if how == "Get" {
						b, _, err = p.ReadDirect(within(t, time.Minute), s, "a")
					} else {
						b, err = p.Prefetch(s, "a").Bytes(within(t, time.Minute))
					}
					switch {
					case c.good && (err != nil || !bytes.Equal(b, content("a", 0, size))):
						t.Errorf("%s: %d bytes, %v", what, len(b), err)
					case !c.good && (!errors.Is(err, errChecksum) || !strings.Contains(err.Error(), "test://sums/a")):
						t.Errorf("%s: %d bytes, the error is %v", what, len(b), err)
					}
					filler.Release()
				}
			}
		}
	}
}

func TestVerifyAfterReboot(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1000, 2 * mib} {
		dir := t.TempDir()
		s := small("boot", size)
		p := ok(Open(context.Background(), dir, quick(Options{})))(t)
		l := p.Prefetch(s, "a")
		r := ok(l.Open(t.Context()))(t)
		place := r.e.Place
		got(t, p, s, "b")
		must(t, p.Close())

		anotherBoot(t, dir)
		damage(t, p.store.Path(place), max(0, place.Offset)+size/2)
		q := pool(t, dir, Options{MaxAge: -1})
		for range 2 {
			for _, name := range []string{"a", "b"} {
				if !bytes.Equal(got(t, q, s, name), content(name, 0, size)) {
					t.Errorf("%d bytes: damaged bytes of %s are served", size, name)
				}
			}
		}
		if n := q.Counters(); n.Damaged != 1 || n.Hits != 3 {
			t.Errorf("counters: %+v", n)
		}
		if reads, _, _ := s.count("b"); reads != 1 {
			t.Errorf("what was sound was read %d times", reads)
		}
	}
}

func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	s := newSource("secret").put("a", object{size: 10, lie: 5})
	p := pool(t, t.TempDir(), Options{})
	_, err := p.Prefetch(s, "a").Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "test://secret/a") {
		t.Errorf("the error is %v", err)
	}
	_, err = p.Prefetch(s, "none").Open(t.Context())
	var e *objstore.Error
	if err == nil || strings.Count(err.Error(), "test://secret/none") != 1 {
		t.Errorf("the error %v (%T) does not name the object once", err, e)
	}
}
