//go:build linux

package stage

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"leat/objstore"
)

// gotVersion returns the bytes of an object whose version the caller knows.
func gotVersion(t *testing.T, p *Pool, s *source, name string, known objstore.Info) []byte {
	t.Helper()
	l := p.PrefetchVersion(s, name, known, false)
	defer l.Release()
	return ok(l.Bytes(t.Context()))(t)
}

func TestKnownVersionIsNotCompared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource("known").put("a", object{size: 1000}).put("weak", object{size: 1000, nameless: true})
	first := pool(t, dir, Options{})
	got(t, first, s, "a")
	got(t, first, s, "weak")
	known := s.get("a")
	p := pool(t, dir, Options{})
	if !bytes.Equal(gotVersion(t, p, s, "a", known.info("a")), content("a", 0, 1000)) {
		t.Error("another version")
	}
	if reads, stats, _ := s.count("a"); reads != 1 || stats != 0 {
		t.Errorf("the known version was read %d times and looked up %d times", reads, stats)
	}
	// An Info without a version says nothing.
	weak := s.get("weak")
	gotVersion(t, p, s, "weak", weak.info("weak"))
	if reads, stats, _ := s.count("weak"); reads != 2 || stats != 1 {
		t.Errorf("the unversioned object was read %d times and looked up %d times", reads, stats)
	}
	// The staged version is not the known one.
	s.put("a", object{size: 1000, version: 1})
	changed := s.get("a")
	p = pool(t, dir, Options{})
	if !bytes.Equal(gotVersion(t, p, s, "a", changed.info("a")), content("a", 1, 1000)) {
		t.Error("an older version than the known one")
	}
	// The known version was replaced.
	p = pool(t, dir, Options{})
	if !bytes.Equal(gotVersion(t, p, s, "a", known.info("a")), content("a", 1, 1000)) {
		t.Error("the replaced version")
	}
}

func TestKnownVersionRequestsAllPartsAtOnce(t *testing.T) {
	t.Parallel()
	const size = 3<<20 + 5
	gate := make(chan struct{})
	s := newSource("parts").put("a", object{size: size, gate: gate})
	known := s.get("a")
	p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20})
	l := p.PrefetchVersion(s, "a", known.info("a"), false)
	defer l.Release()
	soon(t, "four requests", func() bool {
		reads, _, _ := s.count("a")
		return reads == 4
	})
	close(gate)
	if !bytes.Equal(ok(l.Bytes(t.Context()))(t), content("a", 0, size)) {
		t.Error("other bytes")
	}
	if reads, stats, given := s.count("a"); reads != 4 || stats != 0 || given != size {
		t.Errorf("%d requests for %d bytes, %d without", reads, given, stats)
	}
}

func TestKnownVersionReplacedBeforeCopy(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	s := newSource("replaced").put("a", object{size: size})
	known := s.get("a")
	for _, now := range []int64{size, size + 1000, 1 << 20, 10} { // the known size is not that of the new version
		s.put("a", object{size: now, version: 1})
		p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20})
		l := p.PrefetchVersion(s, "a", known.info("a"), false)
		r := ok(l.Open(t.Context()))(t)
		changed := s.get("a")
		if !objstore.SameVersion(r.Version(), changed.info("a")) || r.Size() != now || !r.Staged() {
			t.Errorf("version %+v of %d bytes is open", r.Version(), r.Size())
		}
		if !bytes.Equal(ok(io.ReadAll(r))(t), content("a", 1, now)) {
			t.Error("other bytes")
		}
		must(t, r.Close())
		l.Release()
		if u := wantDisk(t, p); u.Objects != 1 {
			t.Errorf("%d objects", u.Objects)
		}
	}
}

// statOnly is a source whose bodies come without a version, without ranges, or without both, and
// that ignores conditions.
type statOnly struct {
	*source
	noVersion, noRanges bool
}

func (s *statOnly) Read(ctx context.Context, name string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	from := offset
	if s.noRanges {
		from = 0
		if length >= 0 {
			length += offset
		}
	}
	i, body, err := s.source.Read(ctx, name, from, length, nil)
	if err == nil {
		_, err = io.CopyN(io.Discard, body, offset-from)
	}
	if i.NoRanges = s.noRanges; s.noVersion {
		i.ETag, i.ModTime = "", time.Time{}
	}
	return i, body, err
}

func TestKnownVersionThatBodiesDoNotConfirm(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	for _, c := range []statOnly{{noVersion: true}, {noRanges: true}} {
		s := &c
		s.source = newSource("stat only").put("a", object{size: size})
		s.onRead = func(_ string, offset int64) {
			if s.noVersion && offset >= 2<<20 {
				s.put("a", object{size: size, version: 1})
			}
		}
		p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20, Ranges: 1})
		l := p.PrefetchVersion(s, "a", ok(s.Stat(t.Context(), "a"))(t), false)
		b := ok(l.Bytes(t.Context()))(t)
		if now := s.get("a"); !bytes.Equal(b, content("a", now.version, size)) {
			t.Error("parts of two versions")
		}
		if _, _, given := s.count("a"); given > 3*size {
			t.Errorf("%d bytes were sent for %d", given, size)
		}
		l.Release()
	}
}
