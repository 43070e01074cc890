//go:build linux

package cache

import (
	"errors"
	"hash/crc32"
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

// FuzzParse parses pages and record headers of both versions, with the checksums that they claim
// made right, and compares the result with another encoding of it.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"good", "growing", "good_v1", "growing_v1", "newer", "older"} {
		b := ok(os.ReadFile("testdata/" + name + ".cache"))(f)
		f.Add(b[:pageSize], b[pageSize+192:pageSize+256], int64(7), int64(pageSize+192), int64(len(b)))
	}
	f.Fuzz(func(t *testing.T, page, head []byte, slot, offset, size int64) {
		if len(page) >= pageSize {
			le.PutUint32(page[fixedSize:], crc32.Checksum(page[:fixedSize], table(le.Uint32(page[8:]))))
		}
		h, err := parseHeader(page, size)
		if err == nil {
			again, err := parseHeader(h.encode(), size)
			if err != nil || again != h || h.version < oldest || h.version > version || size < h.base() {
				t.Errorf("%+v became %+v, %v", h, again, err)
			}
			if s, ok := parseSeal(page); ok {
				copied := append([]byte{}, page...)
				copy(copied[sealAt:], s.encode(table(h.version)))
				if again, ok := parseSeal(copied); !ok || again != s {
					t.Errorf("%+v became %+v", s, again)
				}
			}
		}
		if len(head) < recordHead || offset < 0 || offset > maxOffset {
			return
		}
		for _, v := range []uint32{oldest, version} {
			_, whole := parseRecord(head, slot, offset, table(v))
			sum := crc32.Checksum(head[:60], table(v))
			r, ok := parseRecord(head, slot, offset, nil)
			if whole != (ok && sum == le.Uint32(head[60:])) {
				t.Errorf("version %d: %x is whole: %v", v, head, whole)
			}
			if !ok {
				continue
			}
			var b [recordHead]byte
			r.encode(&b, table(v))
			if again, ok := parseRecord(b[:], slot, offset, table(v)); !ok || again != r || r.end() < offset {
				t.Errorf("%+v became %+v", r, again)
			}
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
