package tiff

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/ndarray"
)

func TestUnpredictReversesDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for columns := range 90 {
		for _, size := range []int{1, 2, 4, 8} {
			const rows = 3
			rowBytes := columns * size
			want := ndarray.New(ndarray.Uint64, rows*columns+1).Raw()[:rows*rowBytes]
			for i := range want {
				want[i] = byte(r.Uint32())
			}
			tile := slices.Clone(ndarray.New(ndarray.Uint64, rows*columns+1).Raw())[:rows*rowBytes]
			for y := range rows {
				switch from, to := want[y*rowBytes:][:rowBytes], tile[y*rowBytes:][:rowBytes]; size {
				case 1:
					differences(to, from)
				case 2:
					differences(ndarray.Cast[uint16](to), ndarray.Cast[uint16](from))
				case 4:
					differences(ndarray.Cast[uint32](to), ndarray.Cast[uint32](from))
				case 8:
					differences(ndarray.Cast[uint64](to), ndarray.Cast[uint64](from))
				}
			}
			if rowBytes == 0 {
				continue
			}
			var d Decoder
			if d.Unpredict(2, tile, rowBytes, size, 1); !bytes.Equal(tile, want) {
				t.Fatalf("predictor 2, %d words of %d bytes", columns, size)
			}
			if size == 1 || NativeBig {
				continue
			}
			for y := range rows { // planes of bytes, the most significant first
				planes := make([]byte, rowBytes)
				for i, b := range want[y*rowBytes:][:rowBytes] {
					planes[(size-1-i%size)*columns+i/size] = b
				}
				differences(tile[y*rowBytes:][:rowBytes], planes)
			}
			if d.Unpredict(3, tile, rowBytes, size, 1); !bytes.Equal(tile, want) {
				t.Fatalf("predictor 3, %d words of %d bytes", columns, size)
			}
		}
	}
}

// TestRowsOfPredictorsGoAnywhere undoes predictors from a row to other memory, whole rows and their
// beginnings, and compares with what is undone in place.
func TestRowsOfPredictorsGoAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var d Decoder
	for columns := 1; columns < 90; columns++ {
		for _, c := range [][2]int{{2, 1}, {2, 2}, {2, 4}, {2, 8}, {3, 2}, {3, 4}, {3, 8}} {
			predictor, size := c[0], c[1]
			aligned := func() []byte { return ndarray.New(ndarray.Uint64, columns+1).Raw()[:columns*size] }
			row := aligned()
			for i := range row {
				row[i] = byte(r.Uint32())
			}
			want := aligned()
			copy(want, row)
			d.Unpredict(predictor, want, len(want), size, 1)
			for _, n := range []int{columns, 1 + r.IntN(columns)} {
				src, got := aligned(), aligned()
				copy(src, row)
				for i := range got {
					got[i] = 77
				}
				d.UnpredictRow(predictor, got[:n*size], src, size)
				if !bytes.Equal(got[:n*size], want[:n*size]) {
					t.Fatalf("predictor %d, %d of %d words of %d bytes", predictor, n, columns, size)
				}
				if i := slices.IndexFunc(got[n*size:], func(b byte) bool { return b != 77 }); i >= 0 {
					t.Fatalf("predictor %d, %d of %d words of %d bytes: byte %d behind them was written", predictor, n,
						columns, size, i)
				}
			}
		}
	}
}

func differences[T uint8 | uint16 | uint32 | uint64](d, s []T) {
	var before T
	for i, v := range s {
		d[i] = v - before
		before = v
	}
}

func BenchmarkUnpredict(b *testing.B) {
	for _, c := range []struct {
		name            string
		predictor, size int
	}{{"uint16", 2, 2}, {"float32", 3, 4}} {
		b.Run(c.name, func(b *testing.B) {
			tile := ndarray.New(ndarray.Uint64, 512*512*c.size/8).Raw()
			var d Decoder
			b.SetBytes(int64(len(tile)))
			for b.Loop() {
				d.Unpredict(c.predictor, tile, 512*c.size, c.size, 1)
			}
		})
	}
}
