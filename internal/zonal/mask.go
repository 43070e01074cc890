package zonal

import "math"

// Rule decides which pixels belong to a polygon, and with which weight.
type Rule uint8

const (
	// ByCentre takes the pixels whose centre the polygon covers, with weight 1. A centre on the
	// polygon's boundary counts as in gdal_rasterize: on the right, lower and upper sides, but not
	// on the left one.
	ByCentre Rule = iota
	// ByTouch takes the pixels of ByCentre and those whose interior the boundary passes through.
	ByTouch
	// ByCoverage takes the pixels whose area the polygon overlaps. The weight is the overlapped
	// share.
	ByCoverage
)

// One is the weight of a whole pixel. The least weight is 2^-40: smaller shares are rounded to a
// multiple of it, and a share that becomes 0 is left out.
const One Weight = 1 << weightBits

const weightBits = 40

// Weight is the share of a pixel that belongs to a zone, in units of 2^-40.
type Weight uint64

// Float returns the weight as a number from 0 to 1.
func (w Weight) Float() float64 { return math.Ldexp(float64(w), -weightBits) }

// Run is a row of adjacent pixels that belong wholly to a zone.
type Run struct{ Row, Col, Len int }

// Partial is a pixel that belongs partly to a zone.
type Partial struct {
	Row, Col int
	Weight   Weight // above 0 and below One
}

// Mask holds the pixels of a zone in a window. Rows and columns count from the window's upper left
// pixel. Runs and Partials are each ordered by row, then column. No pixel appears twice.
type Mask struct {
	Runs     []Run
	Partials []Partial
}

// Empty reports whether the mask has no pixels.
func (m *Mask) Empty() bool { return len(m.Runs) == 0 && len(m.Partials) == 0 }

// Reset empties the mask and keeps its memory.
func (m *Mask) Reset() { m.Runs, m.Partials = m.Runs[:0], m.Partials[:0] }

// addRun appends pixels [c0, c1) of a row, joined to the last run where they follow it.
func (m *Mask) addRun(row, c0, c1 int) {
	if n := len(m.Runs); n > 0 {
		if last := &m.Runs[n-1]; last.Row == row && last.Col+last.Len == c0 {
			last.Len += c1 - c0
			return
		}
	}
	m.Runs = append(m.Runs, Run{row, c0, c1 - c0})
}
