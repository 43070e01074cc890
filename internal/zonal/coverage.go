package zonal

import (
	"math"
	"slices"
)

// unit is the height and the area of a pixel in the integers that stripState adds up. Sums of
// integers have no order, so a pixel's share does not depend on what else is computed.
const unit = 1 << 60

// stripState computes the shares of the pixels of one row. It cuts the row into strips at the ends
// and the crossings of edges, so that within a strip edges have an order from left to right. Each
// edge where the polygon begins or ends adds or subtracts the area on its right.
type stripState struct {
	col, width int
	cuts       []float64
	pieces     []piece
	inside     []bool  // per part: the even-odd rule's state
	area       []int64 // of each column that an edge crosses
	cover      []int64 // change of the height covered, from this column on
}

// piece is the part of an edge within a strip.
type piece struct {
	e        *edge
	top, bot float64 // x
}

// row computes the shares of row y in columns [col, col+width) from the edges that reach it.
func (s *stripState) row(all []edge, edges []int32, y, col, width, parts int) {
	s.col, s.width = col, width
	s.area = append(s.area[:0], make([]int64, width)...)
	s.cover = append(s.cover[:0], make([]int64, width+1)...)
	s.inside = append(s.inside[:0], make([]bool, parts)...)
	top, bottom := float64(y), float64(y+1)
	s.cuts = s.cuts[:0]
	for _, i := range edges {
		e := &all[i]
		if a, b := max(e.y0, top), min(e.y1, bottom); a < b {
			s.cuts = append(s.cuts, a, b)
		}
	}
	slices.Sort(s.cuts)
	s.cuts = slices.Compact(s.cuts)
	for i := 0; i+1 < len(s.cuts); i++ {
		s.between(all, edges, top, s.cuts[i], s.cuts[i+1])
	}
}

// between adds the strip from a to b, in which no edge begins or ends.
func (s *stripState) between(all []edge, edges []int32, origin, a, b float64) {
	for a < b {
		end := b
		s.order(all, edges, a, end)
		// The strip ends at the first crossing, again and again until none is left: between two
		// crossings that differ by less than the precision of y, order does not matter.
		for {
			cut := s.crossing(a, end)
			if cut >= end {
				break
			}
			end = cut
			s.order(all, edges, a, end)
		}
		s.add(height(end, origin) - height(a, origin))
		a = end
	}
}

// height returns the distance of y from the top of its row, in units.
func height(y, top float64) int64 { return int64(math.RoundToEven((y - top) * unit)) }

// order lists the edges that span the strip from a to b, from left to right at its middle.
func (s *stripState) order(all []edge, edges []int32, a, b float64) {
	s.pieces = s.pieces[:0]
	for _, i := range edges {
		e := &all[i]
		if e.y0 <= a && b <= e.y1 && e.y0 < e.y1 {
			s.pieces = append(s.pieces, piece{e, e.xAt(a), e.xAt(b)})
		}
	}
	slices.SortStableFunc(s.pieces, func(p, q piece) int {
		switch d := (p.top + p.bot) - (q.top + q.bot); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
}

// crossing returns the smallest y between a and b where neighbours cross, or b when none do. When
// all neighbours are in order at both ends of the strip, all edges are.
func (s *stripState) crossing(a, b float64) float64 {
	first := b
	for i := 1; i < len(s.pieces); i++ {
		p, q := &s.pieces[i-1], &s.pieces[i]
		above, below := p.top-q.top, p.bot-q.bot // at most one is positive
		tiny := math.Ldexp(max(math.Abs(p.top), math.Abs(p.bot), 1), -50)
		if above > tiny && below < -tiny || above < -tiny && below > tiny {
			// A crossing at a or b, but for rounding, leaves the strip as it is.
			if y := a + float64((b-a)*(above/(above-below))); y > a {
				first = min(first, y)
			}
		}
	}
	return first
}

// add adds a strip of height h between the edges in order.
func (s *stripState) add(h int64) {
	within := 0 // parts
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
	lo, hi := min(p.top, p.bot), max(p.top, p.bot)
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
	// Above the pixel's left side, the whole row is on the right; below its right side, nothing is.
	left, across := max(c-lo, 0), b-a
	return (left + float64(across*((c+1-a+(c+1-b))/2))) / (hi - lo)
}

// emit appends the row to the mask and clears it.
func (s *stripState) emit(m *Mask, row, offset int) {
	h := int64(0)
	for c := range s.width {
		h += s.cover[c]
		// Rounded to the nearest weight.
		w := (h + s.area[c] + unit/(2*int64(One))) / (unit / int64(One))
		switch {
		case w >= int64(One):
			m.addRun(row, c+offset, c+offset+1)
		case w > 0:
			m.Partials = append(m.Partials, Partial{row, c + offset, Weight(w)})
		}
	}
}
