package zonal

import (
	"slices"

	"leat/block"
)

// Rasterizer finds the pixels of polygons. It reuses memory between calls and is not safe for
// concurrent use.
type Rasterizer struct {
	edges  []edge
	starts []int // of each row's edges in byRow
	byRow  []int32
	cross  []int // columns where a row of centres enters and leaves a part
	spans  []span
	strip  stripState
}

// edge is a side of a ring from its upper to its lower end.
type edge struct {
	x0, y0, x1, y1 float64
	slope          float64 // columns per row
	part           int32
	left           bool // horizontal, and goes left in a ring that runs clockwise on the screen
}

// span is a range of columns.
type span struct{ c0, c1 int }

// Cover sets m to the pixels of p in window w of the raster's pixels. Any division of the raster
// into windows gives the same pixels and weights. p must pass [Polygon.Check].
func (r *Rasterizer) Cover(p *Polygon, w block.Window, rule Rule, m *Mask) {
	m.Reset()
	b, ok := p.Bounds()
	if !ok {
		return
	}
	w0 := w
	w = w.Intersect(b.Window())
	if w.Empty() {
		return
	}
	r.collect(p, w)
	for row := range w.Height {
		edges := r.byRow[r.starts[row]:r.starts[row+1]]
		if len(edges) == 0 {
			continue
		}
		if rule == ByCoverage {
			r.strip.row(r.edges, edges, w.Row+row, w.Col, w.Width, len(p.Parts))
			r.strip.emit(m, w.Row+row-w0.Row, w.Col-w0.Col)
			continue
		}
		r.spans = r.spans[:0]
		r.centres(edges, w.Row+row)
		if rule == ByTouch {
			r.touched(edges, w.Row+row)
		}
		r.emit(m, w, w.Row+row-w0.Row, w.Col-w0.Col)
	}
}

// collect lists the edges that reach each row of the window.
func (r *Rasterizer) collect(p *Polygon, w block.Window) {
	r.edges = r.edges[:0]
	r.starts = append(r.starts[:0], make([]int, w.Height+2)...)
	top, bottom := float64(w.Row), float64(w.Row+w.Height)
	first, ring := 0, 0
	for part, lastRing := range p.Parts {
		for ; ring < lastRing; ring++ {
			xy := p.XY[2*first : 2*p.Rings[ring]]
			first = p.Rings[ring]
			r.collectRing(xy, int32(part), top, bottom)
		}
	}
	// Edges are counted per row, then sorted into the rows.
	for i := range r.edges {
		a, b := r.rows(&r.edges[i], w)
		for row := a; row <= b; row++ {
			r.starts[row+2]++
		}
	}
	for i := 2; i < len(r.starts); i++ {
		r.starts[i] += r.starts[i-1]
	}
	r.byRow = slices.Grow(r.byRow[:0], r.starts[w.Height+1])[:r.starts[w.Height+1]]
	for i := range r.edges {
		a, b := r.rows(&r.edges[i], w)
		for row := a; row <= b; row++ {
			r.byRow[r.starts[row+1]] = int32(i)
			r.starts[row+1]++
		}
	}
}

// rows returns the first and last row of the window that an edge reaches.
func (r *Rasterizer) rows(e *edge, w block.Window) (first, last int) {
	return max(floor(e.y0)-w.Row, 0), min(floor(e.y1)-w.Row, w.Height-1)
}

// collectRing appends the edges of a ring between two rows.
func (r *Rasterizer) collectRing(xy []float64, part int32, top, bottom float64) {
	n := len(xy)
	if n == 0 {
		return
	}
	known, clockwise := false, false
	x0, y0 := xy[n-2], xy[n-1]
	for i := 0; i < n; i += 2 {
		x1, y1 := xy[i], xy[i+1]
		switch {
		case y0 < top && y1 < top || y0 > bottom && y1 > bottom:
		case y0 < y1:
			r.edges = append(r.edges, edge{x0, y0, x1, y1, (x1 - x0) / (y1 - y0), part, false})
		case y0 > y1:
			r.edges = append(r.edges, edge{x1, y1, x0, y0, (x0 - x1) / (y0 - y1), part, false})
		case x0 == x1: // touches a pixel, which no other edge does if the whole ring is one point
			r.edges = append(r.edges, edge{x0, y0, x0, y0, 0, part, false})
		default:
			if !known {
				known, clockwise = true, doubleArea(xy) > 0
			}
			r.edges = append(r.edges, edge{min(x0, x1), y0, max(x0, x1), y1, 0, part, (x0 > x1) == clockwise})
		}
		x0, y0 = x1, y1
	}
}

// doubleArea returns twice the area of a ring, positive when it runs clockwise on the screen.
func doubleArea(xy []float64) float64 {
	ox, oy := xy[0], xy[1]
	sum := 0.0
	for i := 2; i+3 < len(xy); i += 2 {
		sum += float64((xy[i]-ox)*(xy[i+3]-oy)) - float64((xy[i+2]-ox)*(xy[i+1]-oy))
	}
	return sum
}

// xAt returns the column coordinate of an edge at y, that of the nearer end where y is beyond the
// edge.
func (e *edge) xAt(y float64) float64 {
	switch {
	case y <= e.y0:
		return e.x0
	case y >= e.y1:
		return e.x1
	}
	x := float64((y-e.y0)*e.slope) + e.x0
	if e.x0 < e.x1 {
		return min(max(x, e.x0), e.x1)
	}
	return min(max(x, e.x1), e.x0)
}

// centres appends the spans of columns whose centre a part covers, as GDALdllImageFilledPolygon
// does.
func (r *Rasterizer) centres(edges []int32, row int) {
	y := float64(row) + 0.5
	for i := 0; i < len(edges); {
		part := r.edges[edges[i]].part
		r.cross = r.cross[:0]
		for ; i < len(edges) && r.edges[edges[i]].part == part; i++ {
			e := &r.edges[edges[i]]
			switch {
			case e.y0 == e.y1:
				if e.left && e.y0 == y {
					r.addSpan(floor(e.x0+0.5), floor(e.x1+0.5))
				}
			case e.y0 <= y && y < e.y1:
				// The order of operations is GDAL's, so that centres close to an edge agree with
				// it.
				x := float64(float64((y-e.y0)*(e.x1-e.x0))/(e.y1-e.y0)) + e.x0
				r.cross = append(r.cross, floor(x+0.5))
			}
		}
		slices.Sort(r.cross)
		for j := 0; j+1 < len(r.cross); j += 2 {
			r.addSpan(r.cross[j], r.cross[j+1])
		}
	}
}

// touched appends the spans of columns whose interior an edge passes through.
func (r *Rasterizer) touched(edges []int32, row int) {
	top, bottom := float64(row), float64(row+1)
	for _, i := range edges {
		e := &r.edges[i]
		if e.y1 <= top && e.y0 != e.y1 || e.y0 == e.y1 && e.y0 == top || e.y0 >= bottom {
			continue // above, below, or on the border between two rows
		}
		a, b := e.x0, e.x1
		if e.y0 != e.y1 {
			a, b = e.xAt(top), e.xAt(bottom)
		}
		a, b = min(a, b), max(a, b)
		r.addSpan(floor(a), ceil(b)) // empty for a vertical edge between two columns
	}
}

func (r *Rasterizer) addSpan(c0, c1 int) {
	if c0 < c1 {
		r.spans = append(r.spans, span{c0, c1})
	}
}

// emit appends the union of the row's spans to the mask, clipped to the window.
func (r *Rasterizer) emit(m *Mask, w block.Window, row, offset int) {
	if len(r.spans) > 1 {
		slices.SortFunc(r.spans, func(a, b span) int { return a.c0 - b.c0 })
	}
	from := w.Col
	for _, s := range r.spans {
		c0, c1 := max(s.c0, from), min(s.c1, w.Col+w.Width)
		if c0 < c1 {
			m.addRun(row, c0-w.Col+offset, c1-w.Col+offset)
			from = c1
		}
	}
}
