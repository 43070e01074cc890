//go:build linux

package cache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen opens any bytes in all ways. What is not refused must behave as a cache does, whatever
// is in it.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"good", "growing", "dead", "newer", "cut_index", "cut_data", "data_bit",
		"slot_swapped", "slot_negative", "slot_odd", "good_v1", "growing_v1", "data_bit_v1"} {
		f.Add(ok(os.ReadFile("testdata/"+name+".cache"))(f), int64(20))
	}
	for _, name := range []string{"good", "killed", "overlap", "huge"} {
		f.Add(ok(os.ReadFile("testdata/"+name+".pfio"))(f), int64(20))
	}
	f.Fuzz(func(t *testing.T, b []byte, n int64) {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, b, 0o600))
		if c, err := Load(path, nil); err == nil {
			exercise(t, c)
		}
		if n > 1e6 {
			n %= 1e6
		}
		into := create(t, 1e6, nil)
		if _, err := into.ImportPFIO(t.Context(), path, n); err == nil {
			exercise(t, into)
		}
		c, err := Open(path, n, nil)
		if errors.Is(err, ErrMismatch) {
			if info, err := Inspect(path); err == nil {
				c, _ = Open(path, info.Slots, nil)
			}
		} else if err != nil {
			return
		}
		if c != nil {
			exercise(t, c)
		}
	})
}

func exercise(t *testing.T, c *Cache) {
	defer c.Close()
	n := c.N()
	for _, i := range []int64{0, 1, 2, 7, 19, n / 2, n - 1} {
		if i >= n {
			continue
		}
		before, err := c.Get(i)
		if err != nil && !errors.Is(err, ErrMiss) {
			t.Fatal(err)
		}
		stored, errPut := c.Put(i, []byte("fuzz"))
		after, errAfter := c.Get(i)
		switch {
		case errPut != nil:
			t.Fatal(errPut)
		case stored && (errAfter != nil || string(after) != "fuzz" || err == nil):
			t.Fatalf("slot %d: %q, then stored, then %q, %v", i, before, after, errAfter)
		case !stored && string(after) != string(before):
			t.Fatalf("slot %d: %q, then %q", i, before, after)
		}
	}
	rep, err := c.Check(t.Context())
	if err != nil || rep.FilledSlots+rep.Empty+rep.Bad != n {
		t.Fatalf("%+v, %v", rep, err)
	}
	if _, err := c.Stats(); err != nil {
		t.Fatal(err)
	}
}
