package overview

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"leat/internal/guardtest"
	"leat/ndarray"
)

// TestPickFastEqualsGoLoops compares the pixels that vector routines and Go loops take from rows
// between pages that can't be read, with and without gaps between rows.
func TestPickFastEqualsGoLoops(t *testing.T) {
	if !hasAVX2 {
		t.Skip("the processor has no AVX2")
	}
	random := rand.New(rand.NewPCG(1, 2))
	const most, rows = 150, 5
	from, to := guardtest.New(4*most*rows), guardtest.New(4*most*rows)
	for width := 1; width <= most; width++ {
		for factor := 2; factor <= 5; factor++ {
			for _, gap := range []int{0, most - width} {
				size := 4 * (width + (rows-1)*(width+gap))
				for _, data := range [][]byte{from.First(size), from.Last(size)} {
					for i := range data {
						data[i] = byte(random.Uint32())
					}
					p := Plane{Type: ndarray.Float32, Width: width, Height: rows, Stride: width + gap, Data: data}
					n := 4 * Reduced(width, factor) * Reduced(rows, factor)
					want := make([]byte, n)
					hasAVX2 = false
					err := Reduce(Nearest, want, p, factor, nil)
					hasAVX2 = true
					if err != nil {
						t.Fatal(err)
					}
					for _, got := range [][]byte{to.First(n), to.Last(n)} {
						clear(got)
						if err := Reduce(Nearest, got, p, factor, nil); err != nil {
							t.Fatal(err)
						}
						if !bytes.Equal(got, want) {
							t.Fatalf("%d columns, %d apart, factor %d: the pixels differ", width, width+gap, factor)
						}
					}
				}
			}
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, factor := range []int{2, 4} {
		b.Run(map[int]string{2: "factor 2", 4: "factor 4"}[factor], func(b *testing.B) {
			const side = 1024
			src := ndarray.New(ndarray.Float32, side, side).Raw()
			dst := ndarray.New(ndarray.Float32, side/factor, side/factor).Raw()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				p := Plane{Type: ndarray.Float32, Width: side, Height: side, Stride: side, Data: src}
				if err := Reduce(Nearest, dst, p, factor, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
