package rastertest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"leat/internal/driver"
	"leat/ndarray"
	"leat/raster"
)

// Remote is a raster.Prefetcher that, once strict, refuses to read bytes that were not fetched or
// have been released. It shows that a driver fetches everything it reads.
type Remote struct {
	io.ReaderAt
	mu     sync.Mutex
	strict bool
	held   map[int][]raster.Range
	next   int
	bytes  int64
}

// NewRemote returns a Remote over the bytes of r.
func NewRemote(r io.ReaderAt) *Remote { return &Remote{ReaderAt: r, held: map[int][]raster.Range{}} }

// Strict makes f refuse such reads from now on.
func (f *Remote) Strict() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strict = true
}

// Fetch implements raster.Prefetcher. It calls skip for every range.
func (f *Remote) Fetch(ranges []raster.Range, skip func(raster.Range) bool) (release func()) {
	if skip != nil {
		ranges = slices.DeleteFunc(ranges, skip)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.next
	f.next++
	f.held[n] = append([]raster.Range{}, ranges...)
	f.bytes += driver.RangeBytes(ranges)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.held, n)
	}
}

// ReadAt implements io.ReaderAt.
func (f *Remote) ReadAt(b []byte, at int64) (int, error) {
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

// Ranges checks that the source s over remote fetches all bytes that its reads take, that these are
// the bytes listed by its Ranges, and that its pixels equal those of local, the same raster read
// directly.
func Ranges(t *testing.T, r *rand.Rand, remote *Remote, s, local raster.Source) {
	t.Helper()
	remote.Strict()
	info := local.Info()
	for range 6 {
		w := raster.Window{Width: 1 + r.IntN(info.Grid.Width), Height: 1 + r.IntN(info.Grid.Height)}
		w.Col, w.Row = r.IntN(info.Grid.Width-w.Width+1), r.IntN(info.Grid.Height-w.Height+1)
		bands := r.Perm(len(info.Bands))[:1+r.IntN(len(info.Bands))]
		for i := range bands {
			bands[i]++
		}
		listed, err := s.(raster.RangeLister).Ranges(t.Context(), bands, w, false)
		if err != nil {
			t.Error(err)
			return
		}
		for i, p := range listed {
			if p.Bytes <= 0 || p.Offset < 0 || p.Offset+p.Bytes > info.FileBytes || i > 0 &&
				p.Offset < listed[i-1].Offset+listed[i-1].Bytes {
				t.Errorf("ranges not sorted, overlapping or outside the file: %v", listed)
			}
		}
		got, want := ndarray.New(info.Bands[0].Type, len(bands), w.Height, w.Width),
			ndarray.New(info.Bands[0].Type, len(bands), w.Height, w.Width)
		before := remote.Fetched()
		if err := s.Read(t.Context(), bands, w, got); err != nil {
			t.Errorf("window %v of bands %v: %v", w, bands, err)
			return
		}
		if n := remote.Fetched() - before; n != driver.RangeBytes(listed) {
			t.Errorf("window %v of bands %v: %d bytes were fetched, %d listed", w, bands, n, driver.RangeBytes(listed))
		}
		if err := local.Read(t.Context(), bands, w, want); err != nil {
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
		if err := local.(raster.Masker).ReadMask(t.Context(), w, b); err != nil {
			t.Error(err)
		}
		if string(a) != string(b) {
			t.Errorf("mask of window %v: other pixels", w)
		}
	}
}

// Fetched returns the number of bytes fetched.
func (f *Remote) Fetched() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}
