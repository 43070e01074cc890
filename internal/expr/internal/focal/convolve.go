package focal

import (
	"bytes"
	"encoding/binary"
)

// Convolve sets dst to weighted sums of the neighbours. weights has rows of equal length, odd
// numbers of rows and columns, and the weight of the pixel itself in its middle; it is not
// mirrored. Products are added in float64, row after row. A pixel is invalid if a neighbour with a
// weight other than 0 is.
func Convolve[T Float](dst, src *Plane[T], weights [][]float64, s *Scratch) {
	margin, sides := len(weights)/2, len(weights[0])/2
	row, col := offset(dst, src, margin, sides)
	m := &mask[T]{dst: dst}
	for first := 0; first < dst.Columns; first += stripColumns {
		s.reset()
		n := min(stripColumns, dst.Columns-first)
		sum := take[float64](s, n)
		allValid := src.allValid(row-margin, col+first-sides, dst.Rows+2*margin, n+2*sides)
		for r := range dst.Rows {
			clear(sum)
			for i, line := range weights {
				for j, weight := range line {
					if weight == 0 {
						continue
					}
					at := (row+r+i-margin)*src.Columns + col + first + j - sides
					addProducts(sum, src.Values[at:][:n], weight)
					if allValid {
						continue
					}
					if v := src.Valid[at:][:n]; bytes.IndexByte(v, 0) >= 0 {
						invalidate(m.row(r, first, n), v)
					}
				}
			}
			for i, v := range sum {
				dst.Values[r*dst.Columns+first+i] = T(v)
			}
		}
	}
	m.finish()
}

func addProducts[T Float](sum []float64, values []T, weight float64) {
	values = values[:len(sum)]
	for i := addProductsFast(sum, values, weight); i < len(sum); i++ {
		sum[i] += float64(float64(values[i]) * weight)
	}
}

// invalidate clears bytes of valid where those of neighbours are 0, eight at a time.
func invalidate(valid, neighbours []byte) {
	neighbours = neighbours[:len(valid)]
	i := 0
	for ; i+8 <= len(valid); i += 8 {
		v, n := valid[i:], neighbours[i:]
		binary.NativeEndian.PutUint64(v, binary.NativeEndian.Uint64(v)&binary.NativeEndian.Uint64(n))
	}
	for ; i < len(valid); i++ {
		valid[i] &= neighbours[i]
	}
}
