package gdal

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"leat/raster"
)

// mapper transforms pixel coordinates between the input and the reference lattice. The lattice is
// the reference grid without bounds: pixel 0, 0 is the reference's first, and all integers are
// pixels.
type mapper interface {
	// toLattice and toInput transform x, y in place and set ok for points with an image. The slices
	// have equal lengths.
	toLattice(x, y []float64, ok []bool) error
	toInput(x, y []float64, ok []bool) error
}

var (
	errNoImage    = errors.New("none of its points can be transformed to that CRS")
	errTooDistant = errors.New("it lies more than 500 million pixels away")
)

const (
	// maxLattice bounds the lattice on all sides: larger than any raster, and small enough that no
	// sum overflows an int32, GDAL's type.
	maxLattice = 1 << 29
	// edgeSteps is the number of transformed points on each edge of an input, insideSteps the
	// number of rows and columns of points inside, which find a pole or a fold that no edge
	// touches. computeFootprint finds what lies between them.
	edgeSteps, insideSteps = 256, 33
	// walkPoints is the largest number of pixels of one side that computeFootprint probes. It
	// probes longer sides in steps, and then extends them by one step.
	walkPoints = 1 << 15
	// mostPoints bounds the points that computeFootprint probes, about a second's work: web
	// Mercator extends to infinity at the poles.
	mostPoints = 1 << 21
)

// footprint returns the smallest window of the lattice with all pixels that an input of the given
// size yields. Methods such as average (area) yield a pixel if its corners reach into the input,
// the others if its centre does.
//
// If x repeats after a number of columns (one of turns), as longitudes do, an input appears many
// times. The footprint is the appearance in the turn around the middle of ref, the reference's
// window, wherever the coordinates of the CRS begin. No footprint is wider than one turn, unless
// ref is wider.
func footprint(m mapper, size raster.Size, area bool, ref raster.Window, turns []float64) (raster.Window, error) {
	x, y := inputPoints(size)
	ok := make([]bool, len(x))
	if err := m.toLattice(x, y, ok); err != nil {
		return raster.Window{}, err
	}
	turn, err := periodOf(m, x, y, ok, turns)
	if err != nil {
		return raster.Window{}, err
	}
	rounding := 0.0
	minX, minY, maxX, maxY := bounds(x, y, ok)
	if turn > 0 {
		rounding = 1e-3
		before, after := minX, maxX
		unroll(x, ok, float64(ref.Col)+float64(float64(ref.Width)/2), turn)
		minX, _, maxX, _ = bounds(x, y, ok)
		if maxX-minX > turn-2 && before-1 <= float64(ref.Col) && float64(ref.Col+ref.Width) <= after+1 {
			minX, maxX = before, after // around the whole earth: keep its own columns
		}
	}
	if minX > maxX {
		return raster.Window{}, errNoImage
	}
	if minX > maxLattice || maxX < -maxLattice || minY > maxLattice || maxY < -maxLattice {
		return raster.Window{}, errTooDistant
	}
	clamp := func(v float64) int { return int(math.Min(math.Max(v, -maxLattice), maxLattice)) }
	w := raster.Window{Col: clamp(math.Floor(minX + rounding)), Row: clamp(math.Floor(minY))}
	w.Width, w.Height = max(1, clamp(math.Ceil(maxX-rounding))-w.Col), max(1, clamp(math.Ceil(maxY))-w.Row)
	widest := 2 * maxLattice
	if turn > 0 {
		widest = int(math.Ceil(turn - rounding))
		w.Width = min(w.Width, widest)
	}
	w, err = computeFootprint(m, w, size, area, widest)
	if w.Width == widest { // a full turn may begin anywhere: choose where it covers most of the reference
		w.Col = min(max(w.Col, ref.Col+ref.Width-widest), ref.Col)
	}
	if own := w; ref.Width > widest { // the reference can show another turn
		for _, turns := range []int{-1, 1} {
			again := raster.Window{Col: own.Col + turns*widest - 1, Row: own.Row, Width: own.Width + 2,
				Height: own.Height}
			w = w.Union(again.Intersect(raster.Window{Col: ref.Col, Row: own.Row, Width: ref.Width,
				Height: own.Height}))
		}
	}
	return w, err
}

// periodOf returns which of turns, in columns, leads to the same pixels of the input again, or 0 if
// none does. It uses the points of the lattice that are ok. Most of them must agree, since some lie
// where a transformation is discontinuous.
func periodOf(m mapper, x, y []float64, ok []bool, turns []float64) (float64, error) {
	const most = 256
	var px, py []float64 // each point, and those one column and one turn to the right
	step := 1 + len(x)/most
	for _, turn := range turns {
		px, py = px[:0], py[:0]
		for i := 0; i < len(x); i += step {
			if ok[i] {
				px, py = append(px, x[i], x[i]+1, x[i]+turn), append(py, y[i], y[i], y[i])
			}
		}
		found := make([]bool, len(px))
		if err := m.toInput(px, py, found); err != nil {
			return 0, err
		}
		agree, all := 0, 0
		for i := 0; i < len(px); i += 3 {
			if !found[i] || !found[i+1] {
				continue
			}
			all++
			column := math.Hypot(px[i+1]-px[i], py[i+1]-py[i])
			if found[i+2] && math.Hypot(px[i+2]-px[i], py[i+2]-py[i]) < column*turn*1e-3 {
				agree++
			}
		}
		if 2*agree > all {
			return turn, nil
		}
	}
	return 0, nil
}

// unroll shifts columns by whole turns to within half a turn of middle.
func unroll(x []float64, ok []bool, middle, turn float64) {
	for i := range x {
		// A point on the seam, up to rounding, stays on its side.
		if off := x[i] - middle; ok[i] && math.Abs(off) > float64(turn/2)+1e-3 {
			x[i] -= float64(math.Round(off/turn) * turn)
		}
	}
}

// inputPoints returns points on the edges of an input and inside it, in its pixel coordinates.
func inputPoints(size raster.Size) (x, y []float64) {
	w, h := float64(size.Width), float64(size.Height)
	add := func(px, py float64) { x, y = append(x, px), append(y, py) }
	nx, ny := min(edgeSteps, size.Width), min(edgeSteps, size.Height)
	for i := range nx + 1 {
		t := w * float64(i) / float64(nx)
		add(t, 0)
		add(t, h)
	}
	for i := range ny + 1 {
		t := h * float64(i) / float64(ny)
		add(0, t)
		add(w, t)
	}
	for i := range insideSteps {
		for j := range insideSteps {
			add(w*(float64(i)+0.5)/insideSteps, h*(float64(j)+0.5)/insideSteps)
		}
	}
	return x, y
}

// bounds returns the box around the points that are ok; minX > maxX if none is.
func bounds(x, y []float64, ok []bool) (minX, minY, maxX, maxY float64) {
	minX, minY, maxX, maxY = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for i := range x {
		if ok[i] {
			minX, maxX = math.Min(minX, x[i]), math.Max(maxX, x[i])
			minY, maxY = math.Min(minY, y[i]), math.Max(maxY, y[i])
		}
	}
	return
}

// computeFootprint moves the four sides of w until each touches a pixel that the input yields and
// none lies beyond. Outwards it goes at most a quarter of the window, and to at most widest
// columns.
func computeFootprint(m mapper, w raster.Window, size raster.Size, area bool, widest int) (raster.Window, error) {
	p := &prober{m: m, size: size, area: area}
	spanX, spanY := 16+w.Width/4, 16+w.Height/4
	left, top, right, bottom := w.Col, w.Row, w.Col+w.Width, w.Row+w.Height
	first := [4]int{left, top, right, bottom}
	// Extending one side lengthens its neighbours, so repeat until nothing moves. If pixels are
	// large and bent, some are isolated, a few lines away or beyond a corner.
	const gap = 4
	for moved := true; moved && p.err == nil; {
		moved = false
		for n := 1; n <= gap && left-n >= max(first[0]-spanX, right-widest, -maxLattice); n++ {
			if p.column(left-n, top-gap, bottom+gap) {
				left, moved, n = left-n, true, 0
			}
		}
		for n := 0; n < gap && right+n < min(first[2]+spanX, left+widest, maxLattice); n++ {
			if p.column(right+n, top-gap, bottom+gap) {
				right, moved, n = right+n+1, true, -1
			}
		}
		for n := 1; n <= gap && top-n >= max(first[1]-spanY, -maxLattice); n++ {
			if p.row(top-n, left-gap, right+gap) {
				top, moved, n = top-n, true, 0
			}
		}
		for n := 0; n < gap && bottom+n < min(first[3]+spanY, maxLattice); n++ {
			if p.row(bottom+n, left-gap, right+gap) {
				bottom, moved, n = bottom+n+1, true, -1
			}
		}
	}
	// Inwards: the outermost points of an input yield no pixel. Try only a few lines, since the
	// input reaches its transformed points. Skip lines of which only some pixels would be probed.
	const inward = 8
	empty := func(given bool) bool { return !given && p.err == nil && p.asked < mostPoints }
	for range inward {
		if bottom-top <= walkPoints {
			if right-left > 1 && empty(p.column(left, top, bottom)) {
				left++
			}
			if right-left > 1 && empty(p.column(right-1, top, bottom)) {
				right--
			}
		}
		if right-left <= walkPoints {
			if bottom-top > 1 && empty(p.row(top, left, right)) {
				top++
			}
			if bottom-top > 1 && empty(p.row(bottom-1, left, right)) {
				bottom--
			}
		}
	}
	return raster.Window{Col: left, Row: top, Width: right - left, Height: bottom - top}, p.err
}

// prober finds lines of the lattice with pixels that the input yields.
type prober struct {
	m      mapper
	size   raster.Size
	area   bool
	x, y   []float64
	x2, y2 []float64
	ok     []bool
	ok2    []bool
	asked  int
	err    error
}

func (p *prober) column(col, top, bottom int) bool {
	return p.any(bottom-top, func(i int) (int, int) { return col, top + i })
}

func (p *prober) row(row, left, right int) bool {
	return p.any(right-left, func(i int) (int, int) { return left + i, row })
}

// any reports whether the input yields one of n pixels. After an error, or too many points, it
// returns false.
func (p *prober) any(n int, at func(i int) (col, row int)) bool {
	chunk := 32 // the first points are usually enough
	step := 1 + (n-1)/walkPoints
	for i := 0; i < n && p.err == nil && p.asked < mostPoints; chunk = min(2*chunk, manyPoints) {
		p.x, p.y, p.x2, p.y2 = p.x[:0], p.y[:0], p.x2[:0], p.y2[:0]
		for ; i < n && len(p.x) < chunk; i += step {
			col, row := at(i)
			if x, y := float64(col), float64(row); p.area {
				p.x, p.y, p.x2, p.y2 = append(p.x, x), append(p.y, y), append(p.x2, x+1), append(p.y2, y+1)
			} else {
				p.x, p.y = append(p.x, x+0.5), append(p.y, y+0.5)
			}
		}
		if p.asked += len(p.x); p.anyInside() {
			return true
		}
	}
	return false
}

// anyInside transforms the collected points and reports whether one of the pixels is inside.
func (p *prober) anyInside() bool {
	p.ok = slices.Grow(p.ok[:0], len(p.x))[:len(p.x)]
	if p.err = p.m.toInput(p.x, p.y, p.ok); p.err != nil {
		return false
	}
	w, h := float64(p.size.Width), float64(p.size.Height)
	if !p.area {
		for i := range p.x {
			if p.ok[i] && p.x[i] >= 0 && p.y[i] >= 0 && p.x[i]+rounding <= w && p.y[i]+rounding <= h {
				return true
			}
		}
		return false
	}
	p.ok2 = slices.Grow(p.ok2[:0], len(p.x))[:len(p.x)]
	if p.err = p.m.toInput(p.x2, p.y2, p.ok2); p.err != nil {
		return false
	}
	for i := range p.x {
		if p.ok[i] && p.ok2[i] && spans(p.x[i], p.x2[i], w) && spans(p.y[i], p.y2[i], h) {
			return true
		}
	}
	return false
}

// rounding is GDAL's tolerance for rounding, in pixels.
const rounding = 1e-10

// spans reports whether a pixel from a to b overlaps any of n columns. GDAL also assigns the first
// column to a pixel that ends less than a column before it, which would make adjacent tiles
// overlap.
func spans(a, b, n float64) bool {
	lo := math.Min(math.Max(math.Floor(math.Min(a, b)+rounding), 0), n)
	hi := math.Min(math.Ceil(math.Max(a, b)-rounding), n)
	return lo < hi
}

// areaScale returns XSCALE for average and similar methods. Their pixels don't depend on it, but
// GDAL uses it to detect pixels that wrap around the earth, from an input's last columns to its
// first: those that, at this scale, end within th pixels of both sides. If the input has few pixels
// of the lattice, that would be most of them, unless the scale is exaggerated; but above twice the
// true scale GDAL omits pixels at the edges.
func areaScale(xs float64, columns int) (float64, error) {
	const slack = 1.2 // pixels differ in size
	th, n, span := math.Floor(math.Min(2, float64(columns)/10)), float64(columns), slack/xs
	if n >= span*(1+2*th) {
		return xs, nil
	}
	if n < span*(1+th) {
		return 0, fmt.Errorf("it is only %.2g times as wide as a pixel of that grid, and for inputs below %.2g GDAL computes wrong pixels by average, mode, min and the like: use smaller pixels, or another method such as bilinear", n*xs, slack*(1+th))
	}
	return 2 * th / (n - span), nil
}

// scales returns GDAL's XSCALE and YSCALE for the whole input: lattice pixels per input pixel along
// the input's columns and rows. GDAL computes them for each chunk from its bounding boxes, so that
// its results depend on the chunks; here they are the mean over window w of the step in the input
// for one lattice pixel. As in GDAL, a reduction within 5 % of an integer is rounded to it.
func scales(m mapper, w raster.Window, size raster.Size) (xs, ys float64, err error) {
	const n = 21
	var x, y []float64
	for i := range n {
		for j := range n {
			cx, cy := float64(w.Col)+float64(w.Width)*(float64(i)+0.5)/n,
				float64(w.Row)+float64(w.Height)*(float64(j)+0.5)/n
			for _, d := range [4][2]float64{{-0.5, 0}, {0.5, 0}, {0, -0.5}, {0, 0.5}} {
				x, y = append(x, cx+d[0]), append(y, cy+d[1])
			}
		}
	}
	ok := make([]bool, len(x))
	if err := m.toInput(x, y, ok); err != nil {
		return 0, 0, err
	}
	var across, down []float64 // input columns and rows per lattice pixel
	for i := 0; i < len(x); i += 4 {
		if !ok[i] || !ok[i+1] || !ok[i+2] || !ok[i+3] {
			continue
		}
		if mx, my := (x[i]+x[i+1])/2, (y[i]+y[i+1])/2; mx < 0 || my < 0 || mx > float64(size.Width) ||
			my > float64(size.Height) {
			continue
		}
		across = append(across, math.Hypot(x[i+1]-x[i], x[i+3]-x[i+2]))
		down = append(down, math.Hypot(y[i+1]-y[i], y[i+3]-y[i+2]))
	}
	xs, ys = scaleOf(across), scaleOf(down)
	// Above this ratio GDAL computes XSCALE from samples of the chunk.
	return max(xs, ys/99), ys, nil
}

// scaleOf returns one over the mean of spans, without those that cross a discontinuity (ten times
// the median or more).
func scaleOf(spans []float64) float64 {
	if len(spans) == 0 {
		return 1
	}
	slices.Sort(spans)
	limit := 10 * spans[len(spans)/2]
	sum, n := 0.0, 0
	for _, s := range spans {
		if s <= limit {
			sum += s
			n++
		}
	}
	span := sum / float64(n)
	if span <= 0 || math.IsNaN(span) || math.IsInf(span, 0) {
		return 1
	}
	if whole := math.Round(span); whole >= 1 && math.Abs(span-whole) < 0.05 {
		return 1 / whole
	}
	return 1 / span
}

// reach is the box of input pixel coordinates from which the pixels of lattice window w are
// computed, without any filter. whole is set if all of its points have an image, none if no point
// has one.
type reach struct {
	minX, minY, maxX, maxY float64
	whole, none            bool
}

// reachOf computes the box from a net of points, with a margin for the curvature between them. If
// the curvature is large, or points have no image, it uses all pixels of the window.
func reachOf(m mapper, w raster.Window) (reach, error) {
	const net = 16 // pixels between points
	nx, ny := max(8, (w.Width+net-1)/net)+1, max(8, (w.Height+net-1)/net)+1
	x, y := make([]float64, 0, nx*ny), make([]float64, 0, nx*ny)
	for j := range ny {
		for i := range nx {
			x = append(x, float64(w.Col)+float64(w.Width)*float64(i)/float64(nx-1))
			y = append(y, float64(w.Row)+float64(w.Height)*float64(j)/float64(ny-1))
		}
	}
	ok := make([]bool, len(x))
	if err := m.toInput(x, y, ok); err != nil {
		return reach{}, err
	}
	if !slices.Contains(ok, false) {
		r := reach{whole: true}
		r.minX, r.minY, r.maxX, r.maxY = bounds(x, y, ok)
		// Between points, a smooth function deviates from a straight line by at most an eighth of
		// its second difference in each direction; the margin is four times that.
		bx, by := float64(bend(x, nx, ny)/2), float64(bend(y, nx, ny)/2)
		if bx <= 4+float64((r.maxX-r.minX)/16) && by <= 4+float64((r.maxY-r.minY)/16) {
			r.minX, r.minY, r.maxX, r.maxY = r.minX-bx, r.minY-by, r.maxX+bx, r.maxY+by
			return r, nil
		}
	}
	return reachOfAll(m, w)
}

// bend returns the sum of the largest second differences along rows and columns of the net.
func bend(v []float64, nx, ny int) float64 {
	var along, down float64
	for j := range ny {
		for i := range nx {
			at := v[j*nx+i]
			if i > 0 && i < nx-1 {
				along = math.Max(along, math.Abs(v[j*nx+i-1]-2*at+v[j*nx+i+1]))
			}
			if j > 0 && j < ny-1 {
				down = math.Max(down, math.Abs(v[(j-1)*nx+i]-2*at+v[(j+1)*nx+i]))
			}
		}
	}
	return along + down
}

// reachOfAll computes the box from the centre and the corners of every pixel.
func reachOfAll(m mapper, w raster.Window) (reach, error) {
	r := reach{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1), true, true}
	n := w.Width + 1
	x, y, ok := make([]float64, n), make([]float64, n), make([]bool, n)
	for j := range 2*w.Height + 1 {
		half := float64(float64(j%2) / 2) // odd lines hold the centres
		count := n - j%2
		for i := range count {
			x[i], y[i] = float64(w.Col+i)+half, float64(w.Row)+float64(float64(j)/2)
		}
		if err := m.toInput(x[:count], y[:count], ok[:count]); err != nil {
			return r, err
		}
		minX, minY, maxX, maxY := bounds(x[:count], y[:count], ok[:count])
		r.minX, r.minY, r.maxX, r.maxY = math.Min(r.minX, minX), math.Min(r.minY, minY), math.Max(r.maxX, maxX),
			math.Max(r.maxY, maxY)
		r.whole = r.whole && !slices.Contains(ok[:count], false)
	}
	r.none = r.minX > r.maxX
	return r, nil
}

// source returns the window of an input of the given size that r needs with a filter of radiusX and
// radiusY pixels on each side.
func (r reach) source(radiusX, radiusY int, size raster.Size) raster.Window {
	if r.none {
		return raster.Window{}
	}
	span := func(lo, hi float64, radius, n int) (int, int) {
		a := math.Max(math.Floor(lo)-float64(radius), 0)
		b := math.Min(math.Ceil(hi)+float64(radius), float64(n))
		if a >= b {
			return 0, 0
		}
		return int(a), int(b) - int(a)
	}
	var w raster.Window
	w.Col, w.Width = span(r.minX, r.maxX, radiusX, size.Width)
	w.Row, w.Height = span(r.minY, r.maxY, radiusY, size.Height)
	if w.Width == 0 || w.Height == 0 {
		return raster.Window{}
	}
	return w
}

// inside reports whether the input contains all of r.
func (r reach) inside(size raster.Size) bool {
	return r.whole && !r.none && r.minX >= 0 && r.minY >= 0 && r.maxX <= float64(size.Width) &&
		r.maxY <= float64(size.Height)
}
