package focal

import (
	"math/bits"
	"unsafe"
)

// stripColumns is the number of columns that a pass over a block handles at once: the rows of a
// window should stay in the processor's cache.
const stripColumns = 512

// Scratch is memory that the functions reuse between blocks. The zero value is ready for use, by
// one goroutine at a time.
type Scratch struct {
	float64s arena[float64]
	float32s arena[float32]
	int32s   arena[int32]
	uint32s  arena[uint32]
	words    arena[uint64]
	ints     arena[int]
	items    arena[item]
	digits   [1 << digitBits]uint32

	selectors []*selector // of the footprints used last
}

// maxSelectors is the number of footprints whose networks a Scratch keeps.
const maxSelectors = 4

// arena lends slices until reset.
type arena[A any] struct {
	memory     []A
	lent, need int
}

func (a *arena[A]) reset() {
	if a.need > len(a.memory) {
		a.memory = make([]A, a.need)
	}
	a.lent, a.need = 0, 0
}

func (a *arena[A]) take(n int) []A {
	a.need += n
	if a.lent+n > len(a.memory) {
		return make([]A, n)
	}
	part := a.memory[a.lent : a.lent+n : a.lent+n]
	a.lent += n
	return part
}

func (s *Scratch) reset() {
	s.float64s.reset()
	s.float32s.reset()
	s.int32s.reset()
	s.uint32s.reset()
	s.words.reset()
	s.ints.reset()
	s.items.reset()
}

// take returns n values until the next reset. They are not set.
func take[A float64 | float32 | int32](s *Scratch, n int) []A {
	var part any
	switch any(A(0)).(type) {
	case float64:
		part = s.float64s.take(n)
	case float32:
		part = s.float32s.take(n)
	default:
		part = s.int32s.take(n)
	}
	return part.([]A)
}

// ScratchBytes returns an upper bound on the memory that a Scratch holds after the functions of
// this package have computed blocks of up to rows x columns with a footprint.
func ScratchBytes(rows, columns int, f Footprint) int64 {
	n := int64(min(columns, stripColumns) + 2*f.widest)
	side := int64(len(f.half))
	// Rows of a window, levels of doubling and a few more rows: of Std four float64, of Range two
	// float32, of counts one int32.
	window := n * (side + int64(bits.Len(uint(2*f.widest+1))) + 4) * (4*8 + 2*4 + 4)
	// Of Median and Mode, per pixel of a tile: two items, a rank, a value, a number and a bit.
	t := tileSide(f)
	tile := int64(min(rows, t)+len(f.half)) * int64(min(columns, t)+2*f.widest+1)
	tile *= 2*int64(unsafe.Sizeof(item{})) + 4 + 8 + 4 + 1
	total := int64(unsafe.Sizeof(Scratch{})) + window + tile + int64(f.Size())*16
	if size := int64(f.Size()); size <= networkPixels {
		// Rows as they are, sorted columns and the other values of a network.
		rows := side + side*side + size + 2
		total += rows*(stripColumns+2*int64(f.widest)+3*compareStep)*8 + maxSelectors*selectorBytes
	}
	return total
}

// selectorBytes bounds the memory of a selector: the largest has some 1900 comparisons, in slices
// with spare capacity.
const selectorBytes = 64 << 10

// bytes returns the memory that s holds.
func (s *Scratch) bytes() int64 {
	networks := 0
	for _, n := range s.selectors {
		comparisons := cap(n.middle) + cap(n.lower)
		for _, c := range n.shared {
			comparisons += cap(c)
		}
		networks += comparisons*int(unsafe.Sizeof(comparison{})) + cap(n.ranks)*4
	}
	return int64(unsafe.Sizeof(*s)) + int64(networks) +
		int64(len(s.float64s.memory)+len(s.words.memory)+len(s.ints.memory))*8 +
		int64(len(s.float32s.memory)+len(s.int32s.memory)+len(s.uint32s.memory))*4 +
		int64(len(s.items.memory))*int64(unsafe.Sizeof(item{}))
}
