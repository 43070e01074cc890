package gdal

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"leat/raster"
)

// mapper carries pixel coordinates from the input to the reference lattice and back. The lattice is the reference
// grid without its ends: pixel 0, 0 is the reference's first, and all integers are pixels.
type mapper interface {
	// toLattice and toInput replace x, y in place and set ok where a point has an image; n points each.
	toLattice(x, y []float64, ok []bool) error
	toInput(x, y []float64, ok []bool) error
}

var (
	errNoImage = errors.New("no point of it has a place in that system")
	errFar     = errors.New("it lies more than 500 million pixels away")
)

const (
	// maxLattice bounds the lattice on all sides: far beyond any raster, and small enough that no sum overflows an int32, GDAL's type.
	maxLattice = 1 << 29
	// edgeSteps are how many points of each edge of an input are carried over, insideSteps how many rows and columns of
	// points inside it, which find a pole or a fold that no edge touches. What lies between the points is found by walking (settle).
	edgeSteps, insideSteps = 256, 33
	// walkPoints is the most pixels of one side of a footprint that settle looks at. Longer sides are looked at in steps, and then grow by a step.
	walkPoints = 1 << 15
	// mostPoints bounds the points that settle asks for, a second's work: web Mercator has no end at the poles.
	mostPoints = 1 << 21
)

// footprint is the least window of the lattice with all pixels that the input, of the given size, gives. Average and its kin
// (area) give a pixel when its corners reach into the input, the others when its centre does.
//
// Where x comes round again after so many columns (one of turns), as longitudes do, an input has places without end. Its place is that in the turn around the
// middle of ref, the reference's window, however far east or west the system's own numbers begin; no footprint is wider than a turn, but where ref is.
func footprint(m mapper, size raster.Size, area bool, ref raster.Window, turns []float64) (raster.Window, error) {
	x, y := inputPoints(size)
	ok := make([]bool, len(x))
	if err := m.toLattice(x, y, ok); err != nil {
		return raster.Window{}, err
	}
	turn, err := turnOf(m, x, y, ok, turns)
	if err != nil {
		return raster.Window{}, err
	}
	rounding := 0.0
	minX, minY, maxX, maxY := bounds(x, y, ok)
	if turn > 0 {
		rounding = 1e-3
		before, after := minX, maxX
		unroll(x, ok, float64(ref.Col)+float64(ref.Width)/2, turn)
		minX, _, maxX, _ = bounds(x, y, ok)
		if maxX-minX > turn-2 && before-1 <= float64(ref.Col) && float64(ref.Col+ref.Width) <= after+1 {
			minX, maxX = before, after // all around the earth, and as it is called
		}
	}
	if minX > maxX {
		return raster.Window{}, errNoImage
	}
	if minX > maxLattice || maxX < -maxLattice || minY > maxLattice || maxY < -maxLattice {
		return raster.Window{}, errFar
	}
	clamp := func(v float64) int { return int(math.Min(math.Max(v, -maxLattice), maxLattice)) }
	w := raster.Window{Col: clamp(math.Floor(minX + rounding)), Row: clamp(math.Floor(minY))}
	w.Width, w.Height = max(1, clamp(math.Ceil(maxX-rounding))-w.Col), max(1, clamp(math.Ceil(maxY))-w.Row)
	widest := 2 * maxLattice
	if turn > 0 {
		widest = int(math.Ceil(turn - rounding))
		w.Width = min(w.Width, widest)
	}
	w, err = settle(m, w, size, area, widest)
	if w.Width == widest { // all of a turn, wherever it begins: where it holds most of the reference
		w.Col = min(max(w.Col, ref.Col+ref.Width-widest), ref.Col)
	}
	if own := w; ref.Width > widest { // it has room for another turn
		for _, turns := range []int{-1, 1} {
			again := raster.Window{Col: own.Col + turns*widest - 1, Row: own.Row, Width: own.Width + 2, Height: own.Height}
			w = w.Union(again.Intersect(raster.Window{Col: ref.Col, Row: own.Row, Width: ref.Width, Height: own.Height}))
		}
	}
	return w, err
}

// turnOf is the one of turns, in columns, after which the lattice leads to the same pixels of the input again; 0 where none does. The points are those of the lattice
// that are ok. Most of them must agree: some lie where a transformation breaks.
func turnOf(m mapper, x, y []float64, ok []bool, turns []float64) (float64, error) {
	const most = 256
	var px, py []float64 // each point, the one a column to the right, and the one a turn to the right
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

// unroll moves columns by whole turns to where they lie around the middle.
func unroll(x []float64, ok []bool, middle, turn float64) {
	for i := range x {
		// What lies on the seam, but for rounding, stays on its side.
		if off := x[i] - middle; ok[i] && math.Abs(off) > turn/2+1e-3 {
			x[i] -= math.Round(off/turn) * turn
		}
	}
}

// inputPoints are points along the edges of an input and inside it, in its pixels.
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

// bounds is the box around the points that are ok; minX > maxX when none is.
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

// settle moves the four sides of w until each touches a pixel that the input gives and has none beyond it. Outward it goes no further than a
// quarter of the window, and to no more columns than the widest.
func settle(m mapper, w raster.Window, size raster.Size, area bool, widest int) (raster.Window, error) {
	p := &prober{m: m, size: size, area: area}
	roomX, roomY := 16+w.Width/4, 16+w.Height/4
	left, top, right, bottom := w.Col, w.Row, w.Col+w.Width, w.Row+w.Height
	first := [4]int{left, top, right, bottom}
	// Growing one side lengthens its neighbours: round again until nothing moves. Where pixels are large and bent, some
	// lie by themselves, a few lines off or beyond a corner.
	const gap = 4
	for moved := true; moved && p.err == nil; {
		moved = false
		for n := 1; n <= gap && left-n >= max(first[0]-roomX, right-widest, -maxLattice); n++ {
			if p.column(left-n, top-gap, bottom+gap) {
				left, moved, n = left-n, true, 0
			}
		}
		for n := 0; n < gap && right+n < min(first[2]+roomX, left+widest, maxLattice); n++ {
			if p.column(right+n, top-gap, bottom+gap) {
				right, moved, n = right+n+1, true, -1
			}
		}
		for n := 1; n <= gap && top-n >= max(first[1]-roomY, -maxLattice); n++ {
			if p.row(top-n, left-gap, right+gap) {
				top, moved, n = top-n, true, 0
			}
		}
		for n := 0; n < gap && bottom+n < min(first[3]+roomY, maxLattice); n++ {
			if p.row(bottom+n, left-gap, right+gap) {
				bottom, moved, n = bottom+n+1, true, -1
			}
		}
	}
	// Inward: points of an input's outer edge give no pixel by themselves. More than a few lines are not tried:
	// where the samples say that the input is, it is. Nor are lines of which only some pixels would be looked at.
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

// prober asks which lines of the lattice have pixels that the input gives.
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

// any reports whether one of n pixels is given by the input. After an error, or too many questions, it says no.
func (p *prober) any(n int, at func(i int) (col, row int)) bool {
	chunk := 32 // the first points mostly tell
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
		if p.asked += len(p.x); p.given() {
			return true
		}
	}
	return false
}

// given carries the collected points over and says whether one of the pixels is inside.
func (p *prober) given() bool {
	p.ok = slices.Grow(p.ok[:0], len(p.x))[:len(p.x)]
	if p.err = p.m.toInput(p.x, p.y, p.ok); p.err != nil {
		return false
	}
	w, h := float64(p.size.Width), float64(p.size.Height)
	if !p.area {
		for i := range p.x {
			if p.ok[i] && p.x[i] >= 0 && p.y[i] >= 0 && p.x[i]+tiny <= w && p.y[i]+tiny <= h {
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

// tiny is what GDAL allows for rounding, in pixels.
const tiny = 1e-10

// spans reports whether a pixel from a to b lies on any of n columns. GDAL also gives the first column to a pixel that ends less than a column before it: a rim that
// would make tiles side by side overlap.
func spans(a, b, n float64) bool {
	lo := math.Min(math.Max(math.Floor(math.Min(a, b)+tiny), 0), n)
	hi := math.Min(math.Ceil(math.Max(a, b)-tiny), n)
	return lo < hi
}

// areaScale is the XSCALE for average and its kin. Their pixels don't depend on it, but GDAL judges by it whether a pixel is one that wraps around the earth, from the last columns of
// an input to the first: one that, by this scale, ends nearer than th pixels to both sides. In an input of few pixels of the lattice that would be most of them, unless the scale is
// larger than it is; yet with one of more than twice the true one GDAL leaves out pixels on the edges.
func areaScale(xs float64, columns int) (float64, error) {
	const slack = 1.2 // pixels differ in size
	th, n, span := math.Floor(math.Min(2, float64(columns)/10)), float64(columns), slack/xs
	if n >= span*(1+2*th) {
		return xs, nil
	}
	if n < span*(1+th) {
		return 0, fmt.Errorf("it is only %.2g times as wide as a pixel of that grid, and of inputs of less than %.2g GDAL makes wrong pixels by average, mode, min and the like: take smaller pixels first, or another method (bilinear, say)", n*xs, slack*(1+th))
	}
	return 2 * th / (n - span), nil
}

// scales are GDAL's XSCALE and YSCALE, lattice pixels per input pixel along the input's columns and rows, for all of an input. GDAL
// works them out for each chunk from the boxes around it, so that its results depend on the chunks; here they are the
// mean over window w of what a step of one lattice pixel is in the input. Like GDAL, a reduction within 5 % of
// a whole number is that number.
func scales(m mapper, w raster.Window, size raster.Size) (xs, ys float64, err error) {
	const n = 21
	var x, y []float64
	for i := range n {
		for j := range n {
			cx, cy := float64(w.Col)+float64(w.Width)*(float64(i)+0.5)/n, float64(w.Row)+float64(w.Height)*(float64(j)+0.5)/n
			for _, d := range [4][2]float64{{-0.5, 0}, {0.5, 0}, {0, -0.5}, {0, 0.5}} {
				x, y = append(x, cx+d[0]), append(y, cy+d[1])
			}
		}
	}
	ok := make([]bool, len(x))
	if err := m.toInput(x, y, ok); err != nil {
		return 0, 0, err
	}
	var across, down []float64 // input columns and rows that a lattice pixel spans
	for i := 0; i < len(x); i += 4 {
		if !ok[i] || !ok[i+1] || !ok[i+2] || !ok[i+3] {
			continue
		}
		if mx, my := (x[i]+x[i+1])/2, (y[i]+y[i+1])/2; mx < 0 || my < 0 || mx > float64(size.Width) || my > float64(size.Height) {
			continue
		}
		across = append(across, math.Hypot(x[i+1]-x[i], x[i+3]-x[i+2]))
		down = append(down, math.Hypot(y[i+1]-y[i], y[i+3]-y[i+2]))
	}
	xs, ys = scaleOf(across), scaleOf(down)
	// Beyond this ratio GDAL takes XSCALE from samples of the chunk instead.
	return max(xs, ys/99), ys, nil
}

// scaleOf is one over the mean of spans, without those that cross a discontinuity (ten times the median and more).
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

// reach is the box of input pixel coordinates that the pixels of lattice window w are made from, before any filter, and whether all
// of its points have an image. none: no point has.
type reach struct {
	minX, minY, maxX, maxY float64
	whole, none            bool
}

// reachOf finds the box by a net of points with a margin for what the transformation bends between them; where it bends much,
// or points have no image, by all pixels of the window.
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
		// Between points a smooth function is off the straight line by at most an eighth of its second difference in
		// each direction; four times that is taken.
		bx, by := bend(x, nx, ny)/2, bend(y, nx, ny)/2
		if bx <= 4+(r.maxX-r.minX)/16 && by <= 4+(r.maxY-r.minY)/16 {
			r.minX, r.minY, r.maxX, r.maxY = r.minX-bx, r.minY-by, r.maxX+bx, r.maxY+by
			return r, nil
		}
	}
	return reachOfAll(m, w)
}

// bend is the sum of the largest second differences along rows and columns of the net.
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

// reachOfAll is reachOf by the centre and the corners of every pixel.
func reachOfAll(m mapper, w raster.Window) (reach, error) {
	r := reach{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1), true, true}
	n := w.Width + 1
	x, y, ok := make([]float64, n), make([]float64, n), make([]bool, n)
	for j := range 2*w.Height + 1 {
		half := float64(j%2) / 2 // odd lines are those of the centres
		count := n - j%2
		for i := range count {
			x[i], y[i] = float64(w.Col+i)+half, float64(w.Row)+float64(j)/2
		}
		if err := m.toInput(x[:count], y[:count], ok[:count]); err != nil {
			return r, err
		}
		minX, minY, maxX, maxY := bounds(x[:count], y[:count], ok[:count])
		r.minX, r.minY, r.maxX, r.maxY = math.Min(r.minX, minX), math.Min(r.minY, minY), math.Max(r.maxX, maxX), math.Max(r.maxY, maxY)
		r.whole = r.whole && !slices.Contains(ok[:count], false)
	}
	r.none = r.minX > r.maxX
	return r, nil
}

// source is the window of the input, of the given size, that holds what r and a filter of radius pixels on each side need.
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

// inside reports whether the input has all that r needs.
func (r reach) inside(size raster.Size) bool {
	return r.whole && !r.none && r.minX >= 0 && r.minY >= 0 && r.maxX <= float64(size.Width) && r.maxY <= float64(size.Height)
}
