//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"leat/stage/internal/index"
)

// mixed has objects of all sizes up to most under names that are numbers, in one version.
func mixed(id string, version int, most int64) *source {
	s := newSource(id)
	s.missing = func(name string) *object {
		h := fnv.New64a()
		h.Write([]byte(name))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		o := &object{version: version, unknown: r.IntN(5) == 0}
		switch r.IntN(10) {
		case 0:
			o.size = r.Int64N(most)
		case 1, 2, 3:
			o.size = r.Int64N(min(most, 300*kib))
		default:
			o.size = 1 + r.Int64N(min(most, 20*kib))
		}
		return o
	}
	return s
}

// verify reads a Reader and compares it with what its version should hold.
func verify(r *Reader, s *source) error {
	name := r.it.name
	var version int
	if _, err := fmt.Sscanf(r.Version().ETag, `"v%d"`, &version); err != nil {
		return fmt.Errorf("%s has the version %q: %w", name, r.Version().ETag, err)
	}
	want := content(name, version, s.get(name).size)
	b, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(b, want) {
		return fmt.Errorf("%s, version %d: %d bytes that are not the %d they should be, %w", name, version, len(b),
			len(want), err)
	}
	return nil
}

// churn does so many things at random with a pool: prefetches, reads and compares, releases.
// Without ops it does so until ctx ends.
func churn(ctx context.Context, p *Pool, s *source, r *rand.Rand, names, ops int) error {
	var held []*Ref
	defer func() {
		for _, l := range held {
			l.Release()
		}
	}()
	for i := 0; (i < ops || ops == 0) && ctx.Err() == nil; i++ {
		switch k := r.IntN(10); {
		case k < 5 && len(held) < 20 || len(held) == 0:
			name := fmt.Sprint(r.IntN(names))
			if r.IntN(3) > 0 {
				held = append(held, p.Prefetch(s, name))
				break
			}
			known := s.get(name) // this version, or perhaps one before
			known.version = max(0, known.version-r.IntN(2))
			held = append(held, p.PrefetchVersion(s, name, known.info(name), r.IntN(4) == 0))
		case k < 8:
			l := held[r.IntN(len(held))]
			// At the end of ctx, who waits has what it wants.
			patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			rd, err := l.Open(patience)
			cancel()
			if err != nil {
				return err
			}
			err = verify(rd, s)
			if err == nil && r.IntN(10) == 0 {
				err = verifyPath(rd, s)
			}
			if err := errors.Join(err, rd.Close()); err != nil {
				return err
			}
		default:
			j := r.IntN(len(held))
			held[j].Release()
			held = append(held[:j], held[j+1:]...)
		}
	}
	return nil
}

func verifyPath(rd *Reader, s *source) error {
	path, err := rd.Path()
	if errors.Is(err, ErrNoSpace) {
		return nil
	} else if err != nil {
		return err
	}
	var version int
	fmt.Sscanf(rd.Version().ETag, `"v%d"`, &version)
	b, err := os.ReadFile(path)
	if name := rd.it.name; err != nil || !bytes.Equal(b, content(name, version, s.get(name).size)) {
		return fmt.Errorf("the file of %s: %d bytes, not those of version %d: %w", name, len(b), version, err)
	}
	return nil
}

// verifyAll compares everything in the index of a pool with what it should be.
func verifyAll(p *Pool, s *source) (n int, err error) {
	var all []index.Object
	if err := p.index.Each(func(o index.Object) bool { all = append(all, o); return true }); err != nil {
		return 0, err
	}
	for _, o := range all {
		name, found := strings.CutPrefix(strings.TrimSuffix(o.Name, "#file"), s.ID(""))
		if !found {
			continue
		}
		var version int
		if _, err := fmt.Sscanf(o.ETag, `"v%d"`, &version); err != nil {
			return n, fmt.Errorf("%s has the version %q: %w", o.Name, o.ETag, err)
		}
		e, err := p.index.Find(o.Key)
		if err != nil || e == nil {
			return n, fmt.Errorf("%s is known and not found: %w", o.Name, err)
		}
		f, err := p.openEntry(e)
		if err != nil {
			return n, err
		}
		b := make([]byte, e.Size)
		k, err := f.ReadAt(b, 0)
		if err := errors.Join(f.Close()); err != nil {
			return n, err
		}
		e.Unpin()
		if err != nil && err != io.EOF || k != len(b) || !bytes.Equal(b, content(name, version, s.get(name).size)) {
			return n, fmt.Errorf("%s, version %d: %d bytes that are not the %d they should be, %w", o.Name, version,
				len(b), s.get(name).size, err)
		}
		n++
	}
	return n, nil
}
