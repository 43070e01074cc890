package spool

import (
	"testing"

	"leat/block"
	"leat/internal/tiffwrite"
	"leat/ndarray"
)

// BenchmarkResume restores 100,000 small blocks from a spool: most of what resuming a run of many
// blocks takes.
func BenchmarkResume(b *testing.B) {
	const across, side = 316, 96
	const size, n = across * side, across * across
	l, err := NewLayout(Spec{Output: "out",
		File: tiffwrite.FileSpec{Path: "a.tif", Width: size, Height: size, Bands: 1,
			Type: ndarray.Uint8, TileWidth: side, TileHeight: side},
		Blocks:     block.Plan{Width: size, Height: size, WindowWidth: side, WindowHeight: side},
		Candidates: []tiffwrite.Coding{{Compression: tiffwrite.Deflate, Predictor: 1}},
		Statistics: true, Histogram: true})
	if err != nil {
		b.Fatal(err)
	}
	f := testFile(b)
	s := New(f, l, NewChooser(l, f), nil)
	e := s.NewEncoder("")
	pixels := ndarray.New(ndarray.Uint8, 1, side, side)
	for i := range n {
		r, err := e.Encode(l.Blocks.At(i), pixels, Extra{})
		if err == nil {
			err = s.Add(e, l.Blocks.At(i), r)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	h, err := OpenHeader(f.Path())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s := New(f, l, NewChooser(l, f), nil)
		r, err := s.Scan(b.Context(), h)
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			if !r.Has(i) {
				b.Fatalf("block %d is missing", i)
			}
			if _, err := r.Restore(l.Blocks.At(i)); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.RestoreTiles(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/block")
}
