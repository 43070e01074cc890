package focal

import (
	"bytes"
	"math"
	"slices"
)

// networkPixels is the size of the largest footprint whose medians can come from sorting networks.
const networkPixels = 121

// networkLimit returns the size of the largest footprint for which networks are faster than ranks:
// with vectors of four float64 up to 7 x 7, without vectors none (3 x 3 takes 1.3 times as long,
// 11 x 11 takes 22 times).
func networkLimit[T Float]() int {
	if !hasComparisons() {
		return 0
	}
	if _, wide := any(T(0)).(float64); wide {
		return 49
	}
	return networkPixels
}

// Median sets dst to the medians of the valid neighbours: of an even number the mean of the middle
// two. A pixel without any is invalid.
func Median[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	if f.Size() <= networkLimit[T]() {
		medianByNetwork(dst, src, f, s)
		return
	}
	medianByRanks(dst, src, f, s)
}

// selector finds medians with sorting networks whose wires are rows of a buffer. First it sorts
// columns of the footprint, once for all pixels that share them. Then it merges those around each
// pixel. A place is the index of a value of the buffer.
type selector struct {
	half   []int // the footprint
	stride int   // values from row to row of the buffer
	rows   int   // of the buffer

	shared [][]comparison // sort columns, then merge two, four, ... columns
	middle []comparison   // find the middle value of all pixels
	lower  []comparison   // sort the lower half and the middle value
	at     int32          // place of the middle value
	ranks  []int32        // places of the values from the smallest to the middle one
}

func newSelector(f Footprint) *selector {
	margin, sides := f.Margin()
	side := 2*sides + 1
	// Rows whose distance divides the size of a page would compete for lines of the cache.
	stride := (stripColumns+side+2*compareStep)&^(compareStep-1) + compareStep/2
	s := &selector{half: f.half, stride: stride, rows: len(f.half)}
	sorted := map[int][]int32{} // the places of a column's values by its height
	var sequences [][]int32
	for x := range side {
		h := 0
		for _, half := range f.half {
			if half >= max(x-sides, sides-x) {
				h++
			}
		}
		if sorted[h] == nil {
			var raw [][]int32
			for y := margin - h/2; y <= margin+h/2; y++ {
				raw = append(raw, []int32{int32(y * s.stride)})
			}
			sorted[h] = s.share(raw)
		}
		sequences = append(sequences, shifted(sorted[h], x))
	}
	if f.square {
		sequences = s.shareGroups(sorted[side], side)
	}
	n, all, inputs := mergeNetwork(sequences)
	half := all[:len(all)/2+1]
	rows := s.rows
	s.lower, s.ranks, s.rows = n.place(half, inputs, rows, s.stride)
	middle, at, _ := n.place(half[len(half)-1:], inputs, rows, s.stride)
	s.middle, s.at = middle, at[0]
	return s
}

// share adds comparisons that merge sequences, and returns the places of the result.
func (s *selector) share(sequences [][]int32) []int32 {
	n, all, inputs := mergeNetwork(sequences)
	var c []comparison
	c, all, s.rows = n.place(all, inputs, s.rows, s.stride)
	s.shared = append(s.shared, c)
	return all
}

// shareGroups merges groups of 2, 4, ... columns as long as a square has two of them, and returns
// the sequences that make up the square.
func (s *selector) shareGroups(column []int32, side int) (sequences [][]int32) {
	group, width := column, 1
	for ; side/(2*width) > 1; width *= 2 {
		if groups := side / width; groups%2 == 1 {
			sequences = append(sequences, shifted(group, (groups-1)*width))
		}
		group = s.share([][]int32{group, shifted(group, width)})
	}
	for x := 0; x+width <= side; x += width {
		sequences = append(sequences, shifted(group, x))
	}
	return sequences
}

func shifted(places []int32, columns int) []int32 {
	places = slices.Clone(places)
	for i := range places {
		places[i] += int32(columns)
	}
	return places
}

// mergeNetwork returns a network that merges sequences of places, the wires of the result, and the
// places of the inputs.
func mergeNetwork(sequences [][]int32) (n *network, all, inputs []int32) {
	n = &network{}
	var wires [][]int32
	for _, places := range sequences {
		var w []int32
		for range places {
			w = append(w, n.wires)
			n.wires++
		}
		wires, inputs = append(wires, w), append(inputs, places...)
	}
	return n, n.mergeAll(wires), inputs
}

// selectorOf returns the selector of a footprint.
func (s *Scratch) selectorOf(f Footprint) *selector {
	for _, n := range s.selectors {
		if slices.Equal(n.half, f.half) {
			return n
		}
	}
	if len(s.selectors) == cap(s.selectors) && len(s.selectors) > 0 {
		s.selectors = s.selectors[:0]
	}
	if s.selectors == nil {
		s.selectors = make([]*selector, 0, maxSelectors)
	}
	s.selectors = append(s.selectors, newSelector(f))
	return s.selectors[len(s.selectors)-1]
}

func medianByNetwork[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	net := s.selectorOf(f)
	size := int32(f.Size())
	slide(dst, src, f, s, func(b *strip[T]) {
		// The last row is one more, since whole steps of columns go beyond the widest strip.
		buffer := take[T](s, (net.rows+1)*net.stride)
		width := b.columns + 2*b.sides
		b.rows(func(_, last int, count []int32, to []T, valid []byte) {
			few, none := false, false
			if count != nil {
				few = slices.Min(count) < size
				none = few && bytes.IndexByte(valid, 1) < 0
			}
			if none {
				return
			}
			for y := range f.half {
				load(buffer[y*net.stride:][:width], src, b.at(last-2*b.margin+y), !few, T(math.Inf(1)))
			}
			for _, c := range net.shared {
				perform(buffer, c, width)
			}
			if !few {
				perform(buffer, net.middle, b.columns)
				for i, v := range buffer[net.at:][:len(to)] {
					to[i] = v + 0 // not -0
				}
				return
			}
			perform(buffer, net.lower, b.columns)
			for i, n := range count {
				n = max(n, 1)
				v, w := buffer[int(net.ranks[(n-1)/2])+i]+0, buffer[int(net.ranks[n/2])+i]+0
				if v != w {
					v = T((float64(v) + float64(w)) / 2)
				}
				to[i] = v
			}
		})
	})
}
