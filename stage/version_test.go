//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"leat/codec"
	"leat/objstore"
)

func TestChangedObject(t *testing.T) {
	t.Parallel()
	for _, noETag := range []bool{false, true} {
		dir := t.TempDir()
		s := newSource("changed").put("a", object{size: 1000, noETag: noETag}).put("same",
			object{size: 1000, noETag: noETag})
		p := pool(t, dir, Options{})
		got(t, p, s, "a")
		got(t, p, s, "same")
		s.put("a", object{size: 1000, noETag: noETag, version: 1})
		if !bytes.Equal(got(t, p, s, "a"), content("a", 0, 1000)) {
			t.Error("the pool gives something else than before")
		}
		q := pool(t, dir, Options{})
		for range 3 {
			if !bytes.Equal(got(t, q, s, "a"), content("a", 1, 1000)) {
				t.Error("a new pool gives the old version")
			}
			got(t, q, s, "same")
		}
		if reads, stats, _ := s.count("same"); reads != 1 || stats != 1 {
			t.Errorf("what did not change was read %d times and looked up %d times", reads, stats)
		}
		if reads, stats, _ := s.count("a"); reads != 2 || stats != 1 {
			t.Errorf("what changed was read %d times and looked up %d times", reads, stats)
		}
		if n := q.Counters(); n.Checks != 2 || n.Changed != 1 || n.Misses != 1 || n.Hits < 3 {
			t.Errorf("counters: %+v", n)
		}
	}
}

func TestMaxAge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		maxAge time.Duration
		stats  int
		served int
	}{{0, 1, 1}, {time.Hour, 0, 0}, {-1, 0, 0}, {time.Nanosecond, 1, 1}} {
		dir := t.TempDir()
		s := newSource("age").put("a", object{size: 1000})
		p := ok(Open(context.Background(), dir, quick(Options{})))(t)
		got(t, p, s, "a")
		must(t, p.Close())
		s.put("a", object{size: 1000, version: 1})
		q := pool(t, dir, Options{MaxAge: c.maxAge})
		if !bytes.Equal(got(t, q, s, "a"), content("a", c.served, 1000)) {
			t.Errorf("MaxAge %v: version %d is not what is served", c.maxAge, c.served)
		}
		if _, stats, _ := s.count("a"); stats != c.stats {
			t.Errorf("MaxAge %v: %d look-ups, not %d", c.maxAge, stats, c.stats)
		}
	}
}

func TestCheckIsShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource("remembered").put("a", object{size: 1000})
	p := pool(t, dir, Options{})
	got(t, p, s, "a")
	q := pool(t, dir, Options{})
	r := pool(t, dir, Options{})
	got(t, q, s, "a") // asks, after r was opened
	got(t, r, s, "a")
	if _, stats, _ := s.count("a"); stats != 1 {
		t.Errorf("%d look-ups", stats)
	}
}

func TestMissingObject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource("gone").put("a", object{size: 1000})
	got(t, pool(t, dir, Options{}), s, "a")
	delete(s.objects, "a")
	p := pool(t, dir, Options{})
	l := p.Prefetch(s, "a")
	_, err := l.Open(t.Context())
	wantErr(t, err, os.ErrNotExist)
	l.Release()
	s.put("a", object{size: 1000}) // the server answers again
	if !bytes.Equal(got(t, p, s, "a"), content("a", 0, 1000)) {
		t.Error("another version")
	}
	if reads, _, _ := s.count("a"); reads != 1 {
		t.Errorf("%d copies", reads)
	}
	s.put("a", object{size: 1000, version: 2})
	p = pool(t, dir, Options{})
	if !bytes.Equal(got(t, p, s, "a"), content("a", 2, 1000)) {
		t.Error("another version")
	}
}

func TestUnreachableSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource("down").put("a", object{size: 1000})
	got(t, pool(t, dir, Options{}), s, "a")
	s.put("a", object{size: 1000, fails: -1, err: errFinal})
	l := pool(t, dir, Options{}).Prefetch(s, "a")
	_, err := l.Open(t.Context())
	wantErr(t, err, errFinal)
	if !bytes.Equal(got(t, pool(t, dir, Options{MaxAge: -1}), s, "a"), content("a", 0, 1000)) {
		t.Error("other bytes")
	}
}

func TestChangeBetweenRanges(t *testing.T) {
	t.Parallel()
	for _, noETag := range []bool{false, true} {
		s := newSource("between").put("a", object{size: 5*mib + 3, noETag: noETag})
		s.onRead = func(name string, offset int64) {
			if offset == 2*mib {
				s.edit(name, func(o *object) { o.version = 1 })
			}
		}
		p := pool(t, t.TempDir(), Options{RangeBytes: mib, Ranges: 3})
		l := p.Prefetch(s, "a")
		wantBytes(t, l, s, 1)
		if n := p.Counters(); n.Retries == 0 || n.Errors != 0 {
			t.Errorf("counters: %+v", n)
		}
		l.Release()
		wantDisk(t, p)
	}
}

func TestConstantlyChangingObject(t *testing.T) {
	t.Parallel()
	s := newSource("restless").put("a", object{size: 5 * mib})
	s.onRead = func(name string, offset int64) {
		if offset > 0 {
			s.edit(name, func(o *object) { o.version++ })
		}
	}
	p := pool(t, t.TempDir(), Options{RangeBytes: mib})
	l := p.Prefetch(s, "a")
	_, err := l.Open(within(t, time.Minute))
	wantErr(t, err, objstore.ErrChanged)
	l.Release()
	if u := wantDisk(t, p); u.Bytes != 0 {
		t.Errorf("%d bytes are taken", u.Bytes)
	}
}

func TestSameNameInTwoSources(t *testing.T) {
	t.Parallel()
	one, two := newSource("one").put("a", object{size: 1000}), newSource("two").put("a", object{size: 1000, version: 5})
	p := pool(t, t.TempDir(), Options{})
	if !bytes.Equal(got(t, p, one, "a"), content("a", 0, 1000)) || !bytes.Equal(got(t, p, two, "a"),
		content("a", 5, 1000)) {
		t.Error("one is taken for the other")
	}
}

func TestVersionOf(t *testing.T) {
	t.Parallel()
	now := time.Now()
	all := []objstore.Info{
		{Size: 1}, {Size: 2}, {Size: -1}, {Size: 1, ModTime: now}, {Size: 1, ModTime: now.Add(1)}, {Size: 1, ETag: "a"},
		{Size: 1, ETag: "b"},
	}
	seen := map[string]bool{}
	for _, i := range all {
		seen[fmt.Sprint(versionOf(i))] = true
	}
	if len(seen) != len(all) {
		t.Errorf("%d versions of %d", len(seen), len(all))
	}
	// Where the store names versions, the rest is not looked at: one answer may lack it.
	if versionOf(objstore.Info{Size: 1, ETag: "a"}) != versionOf(objstore.Info{Size: -1, ETag: "a", ModTime: now}) {
		t.Error("a version with an entity tag depends on more than that")
	}
}

func TestOpenBadOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Open(context.Background(), dir, &Options{Workers: 1000, MaxBytes: -1, MaxFiles: -1, MinFree: 2,
		MaxQueue: -1, Keep: 7,
		Ranges: 65, RangeBytes: 1000,
		Retry: objstore.Retry{StallTimeout: -1}})
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 9 {
		t.Errorf("%v", err)
	}
	if names := ok(os.ReadDir(dir))(t); len(names) != 0 {
		t.Errorf("something was made: %v", names)
	}
}

func TestUnversionedObjectIsFetchedByEachPool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource("nameless").put("a", object{size: 1000, nameless: true})
	p := pool(t, dir, Options{})
	made := 0
	decode := func(b []byte) (string, error) { made++; return string(b), nil }
	value := func(p *Pool) string {
		l := ok(TypedOnce(p, "v1", decode, codec.Gob[string]()))(t).Prefetch(s, "a")
		defer l.Release()
		v, _, err := l.Get(t.Context())
		must(t, err)
		return v
	}
	for range 3 { // within a pool it is one version
		if !bytes.Equal(got(t, p, s, "a"), content("a", 0, 1000)) || value(p) != string(content("a", 0, 1000)) {
			t.Fatal("it is another")
		}
	}
	if reads, _, _ := s.count("a"); reads != 2 || made != 1 {
		t.Errorf("it was read %d times, and made %d times", reads, made)
	}
	s.put("a", object{size: 1000, nameless: true, version: 1})
	for _, o := range []Options{{MaxAge: time.Hour}, {MaxAge: -1}} {
		if !bytes.Equal(got(t, pool(t, dir, o), s, "a"), content("a", 0, 1000)) {
			t.Errorf("what MaxAge %v allows is not served", o.MaxAge)
		}
	}
	q := pool(t, dir, Options{})
	if !bytes.Equal(got(t, q, s, "a"), content("a", 1, 1000)) || value(q) != string(content("a", 1, 1000)) {
		t.Error("a new pool gives what was there before")
	}
}
