//go:build linux

package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// TestCacheAgainstModel drives several holders of one cache, in this process, against
// a map. Holders in other processes take the same path through the file: Attach shares nothing in
// memory.
func TestCacheAgainstModel(t *testing.T) {
	dir := inMemory(t)
	kept := 0
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.Int64Range(1, 2000).Draw(r, "n")
		max := int64(0)
		if rapid.Bool().Draw(r, "limited") {
			max = FileSize(n) + rapid.Int64Range(0, 5000).Draw(r, "space")
		}
		verify := func() Verify { return Verify(rapid.IntRange(0, 2).Draw(r, "verify")) }
		first, err := Create(n, &Options{Dir: dir, MaxBytes: max, Verify: verify()})
		if err != nil {
			r.Fatal(err)
		}
		holders := []*Cache{first}
		defer func() {
			for _, c := range holders {
				if err := c.Close(); err != nil {
					r.Error(err)
				}
			}
		}()
		model, frozen, end := map[int64][]byte{}, false, FileSize(n)
		holder := func(r *rapid.T) *Cache { return holders[rapid.IntRange(0, len(holders)-1).Draw(r, "holder")] }
		slot := func(r *rapid.T) int64 { return rapid.Int64Range(0, n-1).Draw(r, "slot") }
		data := rapid.SliceOfN(rapid.Byte(), 0, 300)
		// put does to the model what a Put does, and returns its result.
		put := func(i int64, b []byte) bool {
			if _, ok := model[i]; ok || frozen {
				return false
			}
			after := roundUp(end, align) + recordHead + int64(len(b))
			if max > 0 && after > max {
				frozen = true
				return false
			}
			end, model[i] = after, b
			return true
		}
		r.Repeat(map[string]func(r *rapid.T){
			"attach": func(r *rapid.T) {
				if len(holders) == 4 {
					r.Skip()
				}
				h, err := holder(r).Handle()
				if err != nil {
					r.Fatal(err)
				}
				c, err := Attach(h, &Options{Verify: verify()})
				if err != nil {
					r.Fatal(err)
				}
				holders = append(holders, c)
			},
			"close": func(r *rapid.T) {
				if len(holders) == 1 {
					r.Skip()
				}
				k := rapid.IntRange(0, len(holders)-1).Draw(r, "which")
				if err := holders[k].Close(); err != nil {
					r.Fatal(err)
				}
				holders = append(holders[:k], holders[k+1:]...)
			},
			"put": func(r *rapid.T) {
				i, b := slot(r), data.Draw(r, "data")
				got, err := holder(r).Put(i, b)
				if want := put(i, b); got != want || err != nil {
					r.Fatalf("stored %v, %v, not %v", got, err, want)
				}
			},
			"get": func(r *rapid.T) {
				i := slot(r)
				got, err := holder(r).Get(i)
				want, ok := model[i]
				if ok != (err == nil) || err != nil && !errors.Is(err, ErrMiss) || !bytes.Equal(got, want) {
					r.Fatalf("%q, %v, not %q", got, err, want)
				}
			},
			"view": func(r *rapid.T) {
				i := slot(r)
				want, ok := model[i]
				err := holder(r).View(i, func(b []byte) error {
					if !ok || !bytes.Equal(b, want) {
						return fmt.Errorf("%q, not %q", b, want)
					}
					return nil
				})
				if ok != (err == nil) || err != nil && !errors.Is(err, ErrMiss) {
					r.Fatal(err)
				}
			},
			"get or fill": func(r *rapid.T) {
				i, b := slot(r), data.Draw(r, "data")
				want, ok := model[i]
				got, err := holder(r).GetOrFill(context.Background(), i, func(context.Context) ([]byte, error) {
					if ok {
						return nil, errors.New("filled twice")
					}
					return b, nil
				})
				if !ok {
					put(i, b)
					want = b
				}
				if err != nil || !bytes.Equal(got, want) {
					r.Fatalf("%q, %v, not %q", got, err, want)
				}
			},
			"freeze": func(r *rapid.T) {
				if rapid.IntRange(0, 9).Draw(r, "seldom") > 0 {
					r.Skip()
				}
				if err := holder(r).Freeze(context.Background()); err != nil {
					r.Fatal(err)
				}
				frozen = true
			},
			"preserve and load": func(r *rapid.T) {
				if rapid.IntRange(0, 9).Draw(r, "seldom") > 0 {
					r.Skip()
				}
				kept++
				path := filepath.Join(dir, fmt.Sprint("kept", kept))
				if err := preserve(holder(r), path, rapid.Bool().Draw(r, "overwrite")); err != nil {
					r.Fatal(err)
				}
				frozen = true
				if len(holders) == 4 {
					return
				}
				c, err := Load(path, &Options{Verify: verify()})
				if err != nil {
					r.Fatal(err)
				}
				if err := os.Remove(path); err != nil {
					r.Fatal(err)
				}
				holders = append(holders, c)
			},
			"": func(r *rapid.T) {
				rep, err := holder(r).Check(context.Background())
				if err != nil || !rep.OK() || rep.FilledSlots != int64(len(model)) || rep.DeadBytes != 0 ||
					rep.Empty != n-rep.FilledSlots {
					r.Fatalf("%+v, %v; %d entries", rep, err, len(model))
				}
				if s, err := holder(r).Stats(); err != nil || s.Frozen != frozen || s.Bad != 0 || s.Faults != 0 ||
					s.RefusedNoSpace != 0 {
					r.Fatalf("%+v, %v; frozen %v", s, err, frozen)
				}
			},
		})
	})
}
