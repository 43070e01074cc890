package tiffwrite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"leat/internal/guardtest"
)

// TestVectorPredictorsEqualGoLoops compares rows of all widths and types between pages that can't
// be accessed, by vector routines and by Go loops, with a plain loop for each predictor.
func TestVectorPredictorsEqualGoLoops(t *testing.T) {
	if !hasAVX2 {
		t.Skip("the processor has no AVX2")
	}
	defer func() { hasAVX2 = true }()
	const most = 4 * 16 * 40
	from, to, spare := guardtest.New(8*most), guardtest.New(8*most), guardtest.New(8*most)
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 2, 4, 8} {
		for width := 16; width <= 16*40; width += 16 {
			for samples := 1; samples <= 4; samples++ {
				n := size * width * samples
				for _, part := range []func(guardtest.Memory) []byte{
					func(m guardtest.Memory) []byte { return m.First(n) },
					func(m guardtest.Memory) []byte { return m.Last(n) },
				} {
					src, dst, tmp := part(from), part(to), part(spare)
					for i := range src {
						src[i] = byte(random.Uint32())
					}
					differences, planes := plainDifferences(src, size, samples), plainPlanes(src, size, samples)
					for _, hasAVX2 = range []bool{true, false} {
						what := fmt.Sprintf("%d pixels of %d times %d bytes, AVX2 %v", width, samples, size, hasAVX2)
						differenceRow(dst, src, size*samples, size)
						if !bytes.Equal(dst, differences) {
							t.Fatalf("%s: predictor 2 is wrong", what)
						}
						if size == 1 { // no float
							continue
						}
						floatRow(dst, src, tmp, samples, size)
						if !bytes.Equal(dst, planes) {
							t.Fatalf("%s: predictor 3 is wrong", what)
						}
					}
				}
			}
		}
	}
}

// plainDifferences is predictor 2 element by element.
func plainDifferences(src []byte, size, samples int) []byte {
	out := bytes.Clone(src)
	for at := size * samples; at < len(src); at += size {
		borrow := 0
		for k := range size { // little-endian
			d := int(src[at+k]) - int(src[at-size*samples+k]) - borrow
			borrow = d >> 8 & 1
			out[at+k] = byte(d)
		}
	}
	return out
}

// plainPlanes is predictor 3 byte by byte.
func plainPlanes(src []byte, size, samples int) []byte {
	n := len(src) / size
	planes, out := make([]byte, len(src)), make([]byte, len(src))
	for i := range n {
		for k := range size {
			planes[k*n+i] = src[i*size+size-1-k]
		}
	}
	copy(out, planes[:samples])
	for i := samples; i < len(out); i++ {
		out[i] = planes[i] - planes[i-samples]
	}
	return out
}
