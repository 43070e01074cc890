package expr

import "math"

const (
	maxSide   = 1001 // of squares and kernels
	maxRadius = maxSide / 2
	maxMove   = 1000 // of shift
)

// neighbourhood is the part of a focal call that its text determines: the pixels around each pixel
// that the call reads.
type neighbourhood struct {
	rows, columns int     // how many of them on each side
	side          int     // of a square; 0 for others
	radius        float64 // of a disk
	down, right   int     // of shift
}

// disk parses what follows the name in disk(r).
func (p *parser) disk(name token) (*ast, error) {
	args, err := p.list(")", "the disk")
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		if r, _, ok := literal(args[0]); ok && r >= 0 && r <= maxRadius {
			return &ast{kind: astDisk, pos: name.pos, num: r}, nil
		}
	}
	return nil, p.fail(name.pos, "the radius of a disk must be a literal number from 0 to %d: write disk(2.5)", maxRadius)
}

// focal completes the call of a focal function by its neighbourhood.
func (p *parser) focal(n *ast) (_ *ast, err error) {
	p.neighbours = true
	f := &neighbourhood{rows: 1, columns: 1}
	n.focal = f
	switch functions[n.text].usage {
	case n.text + "(a, side)":
		err = p.footprint(f, n.args[1])
	case "convolve(a, kernel)":
		err = p.kernel(f, n.args[1])
	case "shift(a, rows, columns)":
		if f.down, err = p.move(n.args[1]); err == nil {
			f.right, err = p.move(n.args[2])
		}
		f.rows, f.columns = max(f.down, -f.down), max(f.right, -f.right)
	}
	return n, err
}

// footprint parses the side of a square, or a disk.
func (p *parser) footprint(f *neighbourhood, n *ast) error {
	if n.kind == astDisk {
		f.radius = n.num
		f.rows = int(n.num)
		f.columns = f.rows
		return nil
	}
	side, integer, ok := literal(n)
	if !ok || !integer || side < 1 || side > maxSide || math.Mod(side, 2) == 0 {
		return p.fail(n.pos, "the side of a square must be an odd literal integer from 1 to %d, or disk(r)", maxSide)
	}
	f.side = int(side)
	f.rows, f.columns = f.side/2, f.side/2
	return nil
}

// kernel checks the shape of the weights of convolve.
func (p *parser) kernel(f *neighbourhood, n *ast) error {
	if n.kind != astBands || n.args[0].kind != astBands {
		return p.fail(n.pos, "the kernel must be rows of numbers in brackets: write convolve(a, [[1, 2, 1]])")
	}
	columns := len(n.args[0].args)
	for i, row := range n.args {
		if row.kind != astBands {
			return p.fail(row.pos, "row %d of the kernel must be numbers in brackets: write convolve(a, [[1, 2, 1]])", i+1)
		}
		if len(row.args) != columns {
			return p.fail(row.pos, "row %d of the kernel has %d numbers, row 1 has %d", i+1, len(row.args), columns)
		}
	}
	if rows := len(n.args); rows%2 == 0 || columns%2 == 0 || max(rows, columns) > maxSide {
		return p.fail(n.pos, "the kernel has %d rows and %d columns: both must be odd, from 1 to %d", rows, columns, maxSide)
	}
	f.rows, f.columns = len(n.args)/2, columns/2
	return nil
}

// move parses a number of rows or columns of shift.
func (p *parser) move(n *ast) (int, error) {
	v, integer, ok := literal(n)
	if !ok || !integer || v < -maxMove || v > maxMove {
		return 0, p.fail(n.pos, "the rows and columns of shift must be literal integers from %d to %d", -maxMove, maxMove)
	}
	return int(v), nil
}

// literal returns the number that a literal with or without a sign stands for.
func literal(n *ast) (v float64, integer, ok bool) {
	switch {
	case n.kind == astInt || n.kind == astDecimal:
		return n.num, n.kind == astInt, true
	case n.kind == astUnary && (n.text == "-" || n.text == "+"):
		if v, integer, ok = literal(n.args[0]); n.text == "-" {
			v = -v
		}
		return v, integer, ok
	}
	return 0, false, false
}

// Focal reports whether the expression has focal functions, which need pixels around those that
// they compute.
func (e *Expr) Focal() bool { return e.focal }

// Margin returns how many pixels around a window the expression reads to compute it, on each side.
func (e *Expr) Margin() int {
	m := e.margins(map[*Expr][2]int{})
	return max(m[0], m[1])
}

// margins returns the rows and columns of Margin. known holds those of expressions that others use.
func (e *Expr) margins(known map[*Expr][2]int) [2]int {
	if m, ok := known[e]; ok {
		return m
	}
	defined := map[string][2]int{}
	for _, l := range e.links {
		defined[l.name] = l.expr.margins(known)
	}
	var of func(n *ast) [2]int
	of = func(n *ast) (m [2]int) {
		if n.kind == astName {
			return defined[n.text]
		}
		for _, a := range n.args {
			inner := of(a)
			m[0], m[1] = max(m[0], inner[0]), max(m[1], inner[1])
		}
		if n.focal != nil {
			m[0], m[1] = m[0]+n.focal.rows, m[1]+n.focal.columns
		}
		return m
	}
	for _, d := range e.definitions {
		defined[d.name] = of(d.value)
	}
	known[e] = of(e.root)
	return known[e]
}
