package zonal

import (
	"cmp"
	"math"
	"slices"

	"leat/block"
)

// Index finds the zones whose bounding box overlaps a window. It is immutable and safe for
// concurrent use.
type Index struct {
	boxes []box32 // of the zones in the order of zones, then of groups of nodes, level by level
	zones []int32
	ends  []int // of each level in boxes
}

// IndexBytesPerZone is the memory that an Index takes for each zone: a box, a number, and the
// levels above.
const IndexBytesPerZone = 22

// box32 is a bounding box of pixels, ends included.
type box32 struct{ c0, r0, c1, r1 int32 }

// fanout is the number of nodes in a group: 16 boxes of 16 bytes are four cache lines.
const fanout = 16

// NewIndex returns the index of zones 0 to len(windows)-1 from the pixels that each of them can
// cover, as from [Box.Window]. Zones with an empty window are never found. An index holds at most
// 2^31-1 zones.
func NewIndex(windows []block.Window) *Index {
	x := &Index{}
	for i, w := range windows {
		if !w.Empty() {
			x.zones = append(x.zones, int32(i))
		}
	}
	// Sort-tile-recursive packing (Leutenegger, Lopez, Edgington 1997): slices by row, then column.
	mid := func(z int32) (int, int) {
		w := windows[z]
		return w.Row + w.Height/2, w.Col + w.Width/2
	}
	slices.SortFunc(x.zones, func(a, b int32) int {
		ra, _ := mid(a)
		rb, _ := mid(b)
		return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(a, b))
	})
	slice := fanout * int(math.Ceil(math.Sqrt(float64(len(x.zones))/fanout)))
	for i := 0; i < len(x.zones); i += slice {
		slices.SortFunc(x.zones[i:min(i+slice, len(x.zones))], func(a, b int32) int {
			_, ca := mid(a)
			_, cb := mid(b)
			return cmp.Or(cmp.Compare(ca, cb), cmp.Compare(a, b))
		})
	}
	x.boxes = make([]box32, 0, len(x.zones)+len(x.zones)/(fanout-1)+8)
	for _, z := range x.zones {
		w := windows[z]
		x.boxes = append(x.boxes, newBox32(w))
	}
	for begin := 0; ; {
		end := len(x.boxes)
		x.ends = append(x.ends, end)
		if end-begin <= 1 {
			return x
		}
		for i := begin; i < end; i += fanout {
			b := x.boxes[i]
			for _, o := range x.boxes[i:min(i+fanout, end)] {
				b = box32{min(b.c0, o.c0), min(b.r0, o.r0), max(b.c1, o.c1), max(b.r1, o.r1)}
			}
			x.boxes = append(x.boxes, b)
		}
		begin = end
	}
}

func newBox32(w block.Window) box32 {
	return box32{clamp32(w.Col), clamp32(w.Row), clamp32(w.Col + w.Width - 1), clamp32(w.Row + w.Height - 1)}
}

func clamp32(v int) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }

// Append appends the numbers of the zones whose window overlaps w to dst, in increasing order.
func (x *Index) Append(dst []int, w block.Window) []int {
	if w.Empty() || len(x.zones) == 0 {
		return dst
	}
	q := newBox32(w)
	n := len(dst)
	dst = x.search(dst, len(x.ends)-1, len(x.boxes)-1, q)
	slices.Sort(dst[n:])
	return dst
}

// search appends the zones under the node at boxes[i] of a level.
func (x *Index) search(dst []int, level, i int, q box32) []int {
	b := x.boxes[i]
	if b.c0 > q.c1 || b.c1 < q.c0 || b.r0 > q.r1 || b.r1 < q.r0 {
		return dst
	}
	if level == 0 {
		return append(dst, int(x.zones[i]))
	}
	begin := 0 // of the level below
	if level > 1 {
		begin = x.ends[level-2]
	}
	first := begin + (i-x.ends[level-1])*fanout
	for j := first; j < min(first+fanout, x.ends[level-1]); j++ {
		dst = x.search(dst, level-1, j, q)
	}
	return dst
}
