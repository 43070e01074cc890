package spool

import (
	"bytes"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// TestScanMixedSizes scans small records, which the scanner reads many at a time, and large ones.
// One is damaged and the last is torn.
func TestScanMixedSizes(t *testing.T) {
	f, err := open(filepath.Join(t.TempDir(), "spool"), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.leave()
	if err := f.Start([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	type record struct {
		offset     int64
		meta, data []byte
	}
	from := f.Bytes()
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	var all []record
	for n := range 900 {
		size := []int{0, 70, 300, 3000, 4200}[random.IntN(5)]
		if n%100 == 40 {
			size = 300 << 10
		}
		r := record{f.Bytes(), noise(random.IntN(90)), noise(size)}
		if _, err := f.append(KindBlock, uint64(n), r.meta, r.data); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	const damaged = 33
	at := all[damaged].offset + HeadBytes + int64(len(all[damaged].meta)+len(all[damaged].data)) - 1
	last := []byte{0}
	if _, err := f.ReadAt(last, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.f.WriteAt([]byte{last[0] ^ 1}, at); err != nil {
		t.Fatal(err)
	}
	size := f.Bytes() - 1
	if err := f.f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	var seen []int
	s := newScanner(f, from, size, f.nonce)
	end, err := s.Records(t.Context(), func(h Head, meta []byte) error {
		r := all[h.Number]
		if h.Offset != r.offset || !bytes.Equal(meta, r.meta) || h.DataBytes != int64(len(r.data)) {
			t.Errorf("record %d is wrong", h.Number)
		}
		seen = append(seen, int(h.Number))
		return nil
	})
	if err != nil || end != all[len(all)-1].offset {
		t.Fatalf("the records end at %d, %v; expected %d", end, err, all[len(all)-1].offset)
	}
	var want []int
	for n := range len(all) - 1 {
		if n != damaged {
			want = append(want, n)
		}
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("records %v, expected %v", seen, want)
	}
	for range 2000 { // as when blocks are restored, which lie in any order
		n := random.IntN(len(all) - 1)
		h, ok, err := s.head(all[n].offset)
		if err == nil && ok {
			err = s.readMeta(&h)
		}
		if err != nil || !ok || h.Number != uint64(n) || !bytes.Equal(s.meta, all[n].meta) {
			t.Fatalf("record %d: %v, %v", n, ok, err)
		}
	}
}

// countingReader counts the bytes that are read.
type countingReader struct {
	io.ReaderAt
	bytes int64
}

func (r *countingReader) ReadAt(b []byte, at int64) (int, error) {
	r.bytes += int64(len(b))
	return r.ReaderAt.ReadAt(b, at)
}

// TestScanRandomOrder restores small records in random order, so that records needed in turn are
// rarely close together.
func TestScanRandomOrder(t *testing.T) {
	f := testFile(t)
	const count, size = 2000, 3000
	var at []int64
	for n := range count {
		at = append(at, f.Bytes())
		if _, err := f.append(KindBlock, uint64(n), make([]byte, 60), make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	r := &countingReader{ReaderAt: f}
	s := newScanner(r, at[0], f.Bytes(), f.nonce)
	for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(count) {
		h, ok, err := s.head(at[n])
		if err == nil && ok {
			err = s.readMeta(&h)
		}
		if err != nil || !ok || h.Number != uint64(n) {
			t.Fatalf("record %d: %v, %v", n, ok, err)
		}
	}
	if most := 5 * f.Bytes(); r.bytes > most {
		t.Errorf("%d bytes were read of a file of %d, expected at most %d", r.bytes, f.Bytes(), most)
	}
}
