package block

import "fmt"

// Window is a rectangle of pixels, given by the column and row of its upper left pixel.
type Window struct{ Col, Row, Width, Height int }

// Empty reports whether the window has no pixel.
func (w Window) Empty() bool { return w.Width <= 0 || w.Height <= 0 }

// Pixels returns the number of pixels.
func (w Window) Pixels() int64 { return int64(w.Width) * int64(w.Height) }

// Intersect returns the pixels that both windows have; it is empty where there are none.
func (w Window) Intersect(o Window) Window {
	c0, r0 := max(w.Col, o.Col), max(w.Row, o.Row)
	c1, r1 := min(w.Col+w.Width, o.Col+o.Width), min(w.Row+w.Height, o.Row+o.Height)
	if c1 <= c0 || r1 <= r0 {
		return Window{Col: c0, Row: r0}
	}
	return Window{c0, r0, c1 - c0, r1 - r0}
}

// Union returns the smallest window that holds both; an empty one adds nothing.
func (w Window) Union(o Window) Window {
	switch {
	case w.Empty():
		return o
	case o.Empty():
		return w
	}
	c0, r0 := min(w.Col, o.Col), min(w.Row, o.Row)
	c1, r1 := max(w.Col+w.Width, o.Col+o.Width), max(w.Row+w.Height, o.Row+o.Height)
	return Window{c0, r0, c1 - c0, r1 - r0}
}

// Contains reports whether o lies wholly inside w.
func (w Window) Contains(o Window) bool {
	return o.Col >= w.Col && o.Row >= w.Row && o.Col+o.Width <= w.Col+w.Width && o.Row+o.Height <= w.Row+w.Height
}

// Grow returns the window with n more pixels on each side.
func (w Window) Grow(n int) Window {
	return Window{w.Col - n, w.Row - n, w.Width + 2*n, w.Height + 2*n}
}

// Shift returns the window moved by whole pixels.
func (w Window) Shift(cols, rows int) Window {
	w.Col += cols
	w.Row += rows
	return w
}

// String gives "col,row width x height".
func (w Window) String() string {
	return fmt.Sprintf("%d,%d %dx%d", w.Col, w.Row, w.Width, w.Height)
}
