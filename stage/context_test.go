//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"leat/internal/fault"
)

func TestContextEndsStagedRead(t *testing.T) {
	s := small("ctx", 8*readStep)
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	wantBytes(t, l, s, 0)
	before := []byte("before")
	for _, most := range []int{1, 3, 7} {
		for name, read := range map[string]func(ctx context.Context) ([]byte, error){
			"Bytes":  l.Bytes,
			"Append": func(ctx context.Context) ([]byte, error) { return l.Append(ctx, before) },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			reads := 0
			fault.Set(func(point string) error {
				if point == "stage.reading" {
					if reads++; reads == most {
						cancel()
					}
				}
				return nil
			})
			b, err := read(ctx)
			fault.Set(nil)
			if !errors.Is(err, context.Canceled) || reads != most || name == "Append" && !bytes.Equal(b,
				before) || name == "Bytes" && b != nil {
				t.Errorf("%s ended by read %d: %d bytes, %v after %d reads", name, most, len(b), err, reads)
			}
		}
	}
}

// TestContextEndsDirectRead reads an object whose source stops in the middle.
func TestContextEndsDirectRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size    int64
		o       Options
		prepare func(t *testing.T, p *Pool, l *Ref)
	}{
		"larger than the stage": {directMemory + mib, Options{MaxBytes: mib}, func(*testing.T, *Pool, *Ref) {}},
		"lost on the disk": {4 * mib, Options{}, func(t *testing.T, p *Pool, l *Ref) {
			must(t, p.Wait(t.Context()))
			files := ok(filepath.Glob(filepath.Join(p.Dir(), "objects", "*", "*")))(t)
			if len(files) != 1 {
				t.Fatal(files)
			}
			must(t, os.Remove(files[0]))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource("ctx "+name).put("a", object{size: test.size})
			p := pool(t, t.TempDir(), test.o)
			l := p.Prefetch(s, "a")
			test.prepare(t, p, l)
			_, _, given := s.count("a")
			s.edit("a", func(o *object) { o.middle = make(chan struct{}) })
			for _, read := range []func(ctx context.Context) ([]byte, error){
				l.Bytes,
				func(ctx context.Context) ([]byte, error) { return l.Append(ctx, nil) },
			} {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := read(ctx)
					ended <- err
				}()
				soon(t, "bytes", func() bool { _, _, n := s.count("a"); return n > given })
				cancel()
				select {
				case err := <-ended:
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				case <-time.After(time.Minute):
					t.Fatalf("the reading goes on\n%s", goroutines())
				}
				_, _, given = s.count("a")
			}
		})
	}
}
