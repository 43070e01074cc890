package block

import (
	"fmt"
	"math"
)

// Window is a rectangle of pixels, given by the column and row of its upper left pixel. Its methods
// saturate instead of overflowing.
type Window struct{ Col, Row, Width, Height int }

// Empty reports whether the window has no pixels.
func (w Window) Empty() bool { return w.Width <= 0 || w.Height <= 0 }

// Pixels returns the number of pixels.
func (w Window) Pixels() int64 { return int64(w.Width) * int64(w.Height) }

// Intersect returns the pixels that are in both windows, an empty window when there are none.
func (w Window) Intersect(o Window) Window {
	c0, r0 := max(w.Col, o.Col), max(w.Row, o.Row)
	c1, r1 := min(add(w.Col, w.Width), add(o.Col, o.Width)), min(add(w.Row, w.Height), add(o.Row, o.Height))
	if c1 <= c0 || r1 <= r0 {
		return Window{Col: c0, Row: r0}
	}
	return Window{c0, r0, sub(c1, c0), sub(r1, r0)}
}

// Union returns the smallest window that contains both. An empty window adds nothing.
func (w Window) Union(o Window) Window {
	switch {
	case w.Empty():
		return o
	case o.Empty():
		return w
	}
	c0, r0 := min(w.Col, o.Col), min(w.Row, o.Row)
	c1, r1 := max(add(w.Col, w.Width), add(o.Col, o.Width)), max(add(w.Row, w.Height), add(o.Row, o.Height))
	return Window{c0, r0, sub(c1, c0), sub(r1, r0)}
}

// Contains reports whether o lies inside w. A window of negative size lies inside none.
func (w Window) Contains(o Window) bool {
	return within(o.Col, o.Width, w.Col, w.Width) && within(o.Row, o.Height, w.Row, w.Height)
}

// within reports whether [at, at+n) lies in [start, start+length), without sums that could
// overflow.
func within(at, n, start, length int) bool {
	return n >= 0 && n <= length && at >= start && uint(at)-uint(start) <= uint(length)-uint(n)
}

// Grow returns the window with n more pixels on each side.
func (w Window) Grow(n int) Window {
	return Window{sub(w.Col, n), sub(w.Row, n), add(w.Width, add(n, n)), add(w.Height, add(n, n))}
}

// Shift returns the window moved by whole pixels.
func (w Window) Shift(cols, rows int) Window {
	w.Col, w.Row = add(w.Col, cols), add(w.Row, rows)
	return w
}

// add returns a+b, or the nearest int where the sum overflows.
func add(a, b int) int {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt
	}
	return sum
}

// sub returns a-b, or the nearest int where the difference overflows.
func sub(a, b int) int {
	d := a - b
	switch {
	case a >= 0 && b < 0 && d < 0:
		return math.MaxInt
	case a < 0 && b > 0 && d >= 0:
		return math.MinInt
	}
	return d
}

// String returns "col,row widthxheight".
func (w Window) String() string {
	return fmt.Sprintf("%d,%d %dx%d", w.Col, w.Row, w.Width, w.Height)
}
