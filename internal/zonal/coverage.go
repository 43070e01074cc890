package zonal

import (
	"cmp"
	"math"
	"slices"
)

// unit is the height and the area of a pixel in the integers that stripState adds up. Sums of
// integers do not depend on the order, so a pixel's share does not depend on what else is computed.
const unit = 1 << 60

// stripState computes the shares of the pixels of one row. It cuts the row into strips at the ends
// and the crossings of edges, so that within a strip edges have an order from left to right. Each
// edge where the polygon begins or ends adds or subtracts the area on its right.
type stripState struct {
	col, width int
	cuts       []float64
	pending    []*edge // edges of the row by their upper end; the first next of them have been added to live
	next       int
	live       []*edge // edges that reach the strip, and some that ended above it
	pieces     []piece // edges that reach the strip
	sorted     bool    // live edges are in the order of an earlier strip of the row
	inside     []bool  // per part: whether it was entered and not left, by the even-odd rule
	area       []int64 // of each column that an edge crosses
	cover      []int64 // change of the height covered, from this column on
}

// piece is the part of an edge within a strip.
type piece struct {
	e        *edge
	top, bot float64 // columns
}

// row computes the shares of row y in columns [col, col+width) from the edges that reach it. area
// and cover are 0 up to their capacity.
func (s *stripState) row(all []edge, edges []int32, y, col, width, parts int) {
	s.col, s.width = col, width
	if cap(s.area) < width {
		s.area, s.cover = make([]int64, width), make([]int64, width)
	}
	s.area, s.cover = s.area[:width], s.cover[:width]
	if len(s.inside) < parts {
		s.inside = make([]bool, parts)
	}
	top, bottom := float64(y), float64(y+1)
	s.cuts, s.pending, s.live, s.next, s.sorted = s.cuts[:0], s.pending[:0], s.live[:0], 0, false
	for _, i := range edges {
		e := &all[i]
		if a, b := max(e.y0, top), min(e.y1, bottom); a < b {
			s.cut(a)
			s.cut(b)
			s.pending = append(s.pending, e)
		}
	}
	if len(s.cuts) > smallRow {
		slices.Sort(s.cuts)
		s.cuts = slices.Compact(s.cuts)
		slices.SortStableFunc(s.pending, func(a, b *edge) int { return cmp.Compare(a.y0, b.y0) })
	} else {
		s.live, s.next = append(s.live, s.pending...), len(s.pending)
	}
	for i := 0; i+1 < len(s.cuts); i++ {
		a, b := s.cuts[i], s.cuts[i+1]
		if len(s.cuts) > smallRow {
			s.advance(a)
		}
		s.active(a, b)
		s.sort()
		if end := s.crossing(a, b); end < b {
			s.crossed(top, a, b, end)
			continue
		}
		s.add(height(b, top) - height(a, top))
	}
}

// smallRow is the largest number of cuts that are kept sorted by insertion.
const smallRow = 24

// cut adds a cut at y.
func (s *stripState) cut(y float64) {
	n := len(s.cuts)
	if n > smallRow {
		s.cuts = append(s.cuts, y)
		return
	}
	i := n
	for i > 0 && s.cuts[i-1] > y {
		i--
	}
	if i > 0 && s.cuts[i-1] == y {
		return
	}
	s.cuts = append(s.cuts, y)
	copy(s.cuts[i+1:], s.cuts[i:n])
	s.cuts[i] = y
}

// advance drops the edges that end at or above y, and adds those that begin there.
func (s *stripState) advance(y float64) {
	s.live = slices.DeleteFunc(s.live, func(e *edge) bool { return e.y1 <= y })
	for ; s.next < len(s.pending) && s.pending[s.next].y0 <= y; s.next++ {
		if e := s.pending[s.next]; e.y1 > y {
			s.live = append(s.live, e)
		}
	}
}

// crossed adds the strip from a to b, in which edges cross, first at end.
func (s *stripState) crossed(origin, a, b, end float64) {
	for {
		// Cut the strip at its first crossing until no edges cross above the cut. The order of
		// crossings that differ by less than the precision of y does not matter.
		for cut := end; ; {
			s.active(a, cut)
			s.sort()
			next := s.crossing(a, cut)
			if next >= cut {
				end = cut
				break
			}
			cut = next
		}
		s.add(height(end, origin) - height(a, origin))
		if end == b {
			return
		}
		a, end = end, b
	}
}

// height returns the distance of y from the top of its row, in units.
func height(y, top float64) int64 { return int64(math.RoundToEven((y - top) * unit)) }

// active lists the edges that span the strip from a to b.
func (s *stripState) active(a, b float64) {
	s.pieces = s.pieces[:0]
	for _, e := range s.live {
		if e.y0 <= a && b <= e.y1 {
			s.pieces = append(s.pieces, piece{e, e.xAt(a), e.xAt(b)})
		}
	}
}

// sort orders the pieces from left to right at the middle of the strip. It keeps the live edges in
// the same order, since few of them change places from one strip to the next.
func (s *stripState) sort() {
	if len(s.pieces) > smallRow && !s.sorted {
		slices.SortStableFunc(s.pieces, func(p, q piece) int { return cmp.Compare(p.top+p.bot, q.top+q.bot) })
	}
	s.sorted = true
	for i := 1; i < len(s.pieces); i++ {
		p := s.pieces[i]
		j := i
		for j > 0 && s.pieces[j-1].top+s.pieces[j-1].bot > p.top+p.bot {
			s.pieces[j] = s.pieces[j-1]
			j--
		}
		s.pieces[j] = p
	}
	if len(s.cuts) > smallRow {
		for i := range s.pieces {
			s.live[i] = s.pieces[i].e // each live edge has a piece
		}
	}
}

// crossing returns the smallest y between a and b where neighbours cross, or b when none do. If all
// neighbours are in order at both ends of the strip, no edges cross.
func (s *stripState) crossing(a, b float64) float64 {
	first := b
	for i := 1; i < len(s.pieces); i++ {
		p, q := &s.pieces[i-1], &s.pieces[i]
		above, below := p.top-q.top, p.bot-q.bot // at most one is positive
		if above <= 0 && below <= 0 {
			continue
		}
		tiny := math.Ldexp(max(math.Abs(p.top), math.Abs(p.bot), 1), -50)
		if above > tiny && below < -tiny || above < -tiny && below > tiny {
			// A crossing at a or b, up to rounding, does not divide the strip.
			if y := a + float64((b-a)*(above/(above-below))); y > a {
				first = min(first, y)
			}
		}
	}
	return first
}

// add adds a strip of height h between the edges in order.
func (s *stripState) add(h int64) {
	within := 0 // parts that were entered and not left
	for i := range s.pieces {
		p := &s.pieces[i]
		part := p.e.part
		s.inside[part] = !s.inside[part]
		if s.inside[part] {
			if within == 0 {
				s.addRight(p, h)
			}
			within++
		} else {
			within--
			if within == 0 {
				s.addRight(p, -h)
			}
		}
	}
}

// addRight adds the strip's area on the right of a piece of an edge.
func (s *stripState) addRight(p *piece, h int64) {
	lo, hi := p.top, p.bot
	if lo > hi {
		lo, hi = hi, lo
	}
	c0, c1 := floor(lo), ceil(hi)
	for c := max(c0, s.col); c < min(c1, s.col+s.width); c++ {
		s.area[c-s.col] += int64(math.RoundToEven(rightShare(lo, hi, float64(c)) * float64(h)))
	}
	if c := max(c1, s.col); c < s.col+s.width {
		s.cover[c-s.col] += h
	}
}

// rightShare returns the share of the pixel at [c, c+1] on the right of an edge that goes from lo
// to hi across the whole height.
func rightShare(lo, hi, c float64) float64 {
	if lo >= c && hi <= c+1 {
		return (c + 1 - lo + (c + 1 - hi)) / 2
	}
	a, b := max(lo, c), min(hi, c+1)
	// Where the edge is left of the pixel, the pixel's whole width is on the right; where it is
	// right of the pixel, nothing is.
	left, across := max(c-lo, 0), b-a
	return (left + float64(across*((c+1-a+(c+1-b))/2))) / (hi - lo)
}

// emit appends the row to the mask and sets area and cover to 0.
func (s *stripState) emit(m *Mask, row, offset int) {
	h, full := int64(0), -1 // full is the first column of whole pixels, or -1
	for c, area := range s.area {
		if area|s.cover[c] != 0 {
			h += s.cover[c]
			s.area[c], s.cover[c] = 0, 0
		}
		w := weightOf(h + area)
		if w >= int64(One) {
			if full < 0 {
				full = c
			}
			continue
		}
		if full >= 0 {
			m.addRun(row, full+offset, c+offset)
			full = -1
		}
		if w > 0 {
			m.Partials = append(m.Partials, Partial{row, c + offset, Weight(w)})
		}
	}
	if full >= 0 {
		m.addRun(row, full+offset, s.width+offset)
	}
}

// weightOf returns the weight closest to an area.
func weightOf(area int64) int64 { return (area + unit/(2*int64(One))) / (unit / int64(One)) }
