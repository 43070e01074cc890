package live

// point is what a run had done at a time since its start. In JSON it is an array.
type point [3]int64 // ns, pixels, blocks

// maxPoints is how many points are kept: 512 are more than the page has columns to draw, and 10 KB
// of JSON.
const maxPoints = 512

// history keeps points over the whole of a run: when it is full every second one goes, and from
// then on half as many are kept.
type history struct {
	points []point
	n      int // points given
	stride int // less one: every so many are kept
}

// add keeps a point, if it is its turn or the last.
func (h *history) add(p point, last bool) {
	if h.n%(h.stride+1) == 0 || last {
		h.points = append(h.points, p)
	}
	h.n++
	if len(h.points) < maxPoints {
		return
	}
	for i := range len(h.points) / 2 {
		h.points[i] = h.points[2*i]
	}
	h.points = h.points[:len(h.points)/2]
	h.stride = 2*h.stride + 1
}
