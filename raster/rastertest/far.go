package rastertest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// Far is a raster.Fetcher that, once strict, refuses to read what was not fetched or has been released: a driver that reads from it
// tells all that its reads take.
type Far struct {
	io.ReaderAt
	mu     sync.Mutex
	strict bool
	held   map[int][]raster.Range
	next   int
	bytes  int64
}

// NewFar returns a Far over the bytes of r.
func NewFar(r io.ReaderAt) *Far { return &Far{ReaderAt: r, held: map[int][]raster.Range{}} }

// Strict makes it refuse from now on.
func (f *Far) Strict() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strict = true
}

// Fetch implements raster.Fetcher.
func (f *Far) Fetch(ranges []raster.Range) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.next
	f.next++
	f.held[n] = append([]raster.Range{}, ranges...)
	f.bytes += raster.RangeBytes(ranges)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.held, n)
	}
}

// ReadAt implements io.ReaderAt.
func (f *Far) ReadAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for next, end := at, at+int64(len(b)); f.strict && next < end; {
		from := next
		for _, ranges := range f.held {
			for _, r := range ranges {
				if r.Offset <= next {
					next = max(next, r.Offset+r.Bytes)
				}
			}
		}
		if next == from {
			return 0, fmt.Errorf("byte %d was not fetched", from)
		}
	}
	return f.ReaderAt.ReadAt(b, at)
}

// Ranges checks that the source s over far fetches all that its reads take and no more than it says in Ranges, and that it gives the pixels
// of near, the same raster read as ever.
func Ranges(t *testing.T, r *rand.Rand, far *Far, s, near raster.Source) {
	t.Helper()
	far.Strict()
	info := near.Info()
	for range 6 {
		w := raster.Window{Width: 1 + r.IntN(info.Grid.Width), Height: 1 + r.IntN(info.Grid.Height)}
		w.Col, w.Row = r.IntN(info.Grid.Width-w.Width+1), r.IntN(info.Grid.Height-w.Height+1)
		bands := r.Perm(len(info.Bands))[:1+r.IntN(len(info.Bands))]
		for i := range bands {
			bands[i]++
		}
		told, err := s.(raster.Ranged).Ranges(t.Context(), bands, w, false)
		if err != nil {
			t.Error(err)
			return
		}
		for i, p := range told {
			if p.Bytes <= 0 || p.Offset < 0 || p.Offset+p.Bytes > info.FileBytes || i > 0 && p.Offset < told[i-1].Offset+told[i-1].Bytes {
				t.Errorf("the pieces %v", told)
			}
		}
		got, want := ndarray.New(info.Bands[0].Type, len(bands), w.Height, w.Width), ndarray.New(info.Bands[0].Type, len(bands), w.Height, w.Width)
		before := far.Fetched()
		if err := s.Read(t.Context(), bands, w, got); err != nil {
			t.Errorf("window %v of bands %v: %v", w, bands, err)
			return
		}
		if n := far.Fetched() - before; n != raster.RangeBytes(told) {
			t.Errorf("window %v of bands %v: %d bytes were fetched, %d told", w, bands, n, raster.RangeBytes(told))
		}
		if err := near.Read(t.Context(), bands, w, want); err != nil {
			t.Error(err)
			return
		}
		if string(got.Data) != string(want.Data) {
			t.Errorf("window %v of bands %v: other pixels", w, bands)
		}
		m, ok := s.(raster.Masker)
		if !ok || info.Mask != raster.MaskDataset {
			continue
		}
		a, b := make([]byte, w.Width*w.Height), make([]byte, w.Width*w.Height)
		if err := m.ReadMask(t.Context(), w, a); err != nil {
			t.Errorf("mask of window %v: %v", w, err)
		}
		if err := near.(raster.Masker).ReadMask(t.Context(), w, b); err != nil {
			t.Error(err)
		}
		if string(a) != string(b) {
			t.Errorf("mask of window %v: other pixels", w)
		}
	}
}

// Fetched is how many bytes were fetched until now.
func (f *Far) Fetched() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}
