package expr

import (
	"fmt"
	"math"
	"slices"

	"leat/block"
	"leat/internal/expr/internal/focal"
)

// focalNode is a call of a focal function. Its operand is computed before it, on all pixels that it
// needs, and the nodes opFocal and opFocalMask are its result.
type focalNode struct {
	neighbourhood
	name        string
	reg         regKind // of the operand and of the result
	value, mask int     // of the operand
	footprint   focal.Footprint
	weights     [][]float64 // of convolve
	numbers     []float64   // of terrain functions: azimuth, altitude, scale
}

// key identifies a call with the same operand and arguments.
func (f *focalNode) key() string {
	return fmt.Sprint(f.name, f.neighbourhood, f.reg, f.value, f.mask, f.weights, f.numbers)
}

// focal compiles a call of a focal function: band by band, item by item.
func (c *compiler) focal(n *ast) (value, error) {
	a, err := c.compile(n.args[0])
	if err != nil {
		return value{}, err
	}
	f := focalNode{neighbourhood: *n.focal, name: n.text}
	switch functions[n.text].usage {
	case n.text + "(a, side)":
		if f.side > 0 {
			f.footprint = focal.Square(f.side)
		} else {
			f.footprint, err = focal.Disk(f.radius)
		}
	case "convolve(a, kernel)":
		f.weights, err = c.weights(n.args[1])
	case "shift(a, rows, columns)":
	default:
		f.numbers, err = c.terrainNumbers(n)
	}
	if err != nil {
		return value{}, err
	}
	return c.zip(n.pos, func(vs []val) (val, error) { return c.neighbours(n, f, vs[0]) }, a)
}

// weights returns the numbers of the kernel of convolve, rotated by 180 degrees: a convolution
// mirrors its kernel.
func (c *compiler) weights(n *ast) (rows [][]float64, err error) {
	for _, row := range n.args {
		var weights []float64
		for _, a := range row.args {
			w, err := c.constantNumber(a, "a weight of the kernel", -math.MaxFloat64, math.MaxFloat64)
			if err != nil {
				return nil, err
			}
			weights = append(weights, w)
		}
		slices.Reverse(weights)
		rows = append(rows, weights)
	}
	slices.Reverse(rows)
	return rows, nil
}

// constantNumber returns the value of an argument that must be a number from low to high. If high
// is math.MaxFloat64, the number must be finite, and greater than low if that is a limit.
func (c *compiler) constantNumber(n *ast, what string, low, high float64) (float64, error) {
	v, err := c.compile(n)
	if err != nil {
		return 0, err
	}
	k := v.bands()[0]
	above := high == math.MaxFloat64 && low > -high
	if v.list || len(v.bands()) != 1 || !k.konst || !(k.c >= low && k.c <= high) || above && k.c == low {
		limits := "a finite number"
		switch {
		case above:
			limits = fmt.Sprintf("a number greater than %v", low)
		case high < math.MaxFloat64:
			limits = fmt.Sprintf("a number from %v to %v", low, high)
		}
		return 0, c.fail(n.pos, "%s must be %s", what, limits)
	}
	return k.c, nil
}

// terrainNumbers returns azimuth, altitude and scale of a terrain function, and checks that it can
// be computed on the grid.
func (c *compiler) terrainNumbers(n *ast) ([]float64, error) {
	azimuth, altitude, scale := 315.0, 45.0, 1.0
	scaled := false
	var err error
	set := func(i int, to *float64, what string, low, high float64) {
		if err == nil && i < len(n.args) {
			*to, err = c.constantNumber(n.args[i], what, low, high)
		}
	}
	switch n.text {
	case "tpi", "tri", "roughness":
		return nil, nil
	case "slope", "curvature":
		set(1, &scale, "the scale", 0, math.MaxFloat64)
		scaled = len(n.args) > 1
	case "hillshade":
		set(1, &azimuth, "the azimuth", -360, 360)
		set(2, &altitude, "the altitude", 0, 90)
		set(3, &scale, "the scale", 0, math.MaxFloat64)
		scaled = len(n.args) > 3
	}
	switch {
	case err != nil:
		return nil, err
	case c.ground == NoGround:
		return nil, c.fail(n.pos, "%s needs the size of pixels on the ground: the grid is not georeferenced", n.text)
	case c.ground == GroundDegrees && !scaled && n.text != "aspect":
		return nil, c.fail(n.pos, "%s on a grid in degrees needs the scale, the units of height in a degree: write %s, such as 111120 for metres",
			n.text, functions[n.text].usage)
	case c.ground == UnknownGround && !scaled && n.text != "aspect":
		return nil, c.fail(n.pos, "%s needs the scale, the units of height in a unit of the grid: the CRS is neither projected nor geographic; write %s",
			n.text, functions[n.text].usage)
	}
	return []float64{azimuth, altitude, scale}, nil
}

// neighbours compiles a focal function of one band.
func (c *compiler) neighbours(n *ast, f focalNode, v val) (val, error) {
	if err := c.noNodata(n.pos, v); err != nil {
		return val{}, err
	}
	v = c.number(v)
	f.mask = c.validMask(v)
	cls := v.t.class()
	r := val{t: v.t, nan: v.t.kind == kindFloat}
	statistic := f.footprint.Size() > 0
	switch f.name {
	case "focal_min", "focal_max", "focal_mode", "shift":
		r.chosen, r.nan = selectionOf(v), false
	case "focal_range":
		if r.t.kind == kindInt {
			r.t.lo, r.t.hi = 0, v.t.hi-v.t.lo
		}
	case "focal_sum":
		if pixels := int64(f.footprint.Size()); r.t.kind == kindInt {
			r.t.lo, r.t.hi = min(v.t.lo, mulExact(v.t.lo, pixels)), max(v.t.hi, mulExact(v.t.hi, pixels))
		}
	case "focal_count":
		r.t, r.nan = intType(0, int64(f.footprint.Size())), false
	case "hillshade":
		r.t = intType(1, 255)
	default:
		r.t = floatType(cls)
	}
	if r.t.kind == kindInt && !r.t.exact() {
		return val{}, c.tooWide(n.pos, "this result")
	}
	cls = max(cls, r.t.class())
	f.reg, f.value = cls.reg(), c.vec(v, cls)
	id, known := c.focalIndex[f.key()]
	if !known {
		id = len(c.focals)
		c.focalIndex[f.key()] = id
		c.focals = append(c.focals, f)
	}
	// The pixel itself is one of the neighbours, and folding finds a pixel for each of the others.
	sure := f.mask == 0 && (statistic || c.margin != block.MarginNodata && f.name != "aspect")
	mask := 0
	if !sure && f.name != "focal_count" {
		mask = c.add(node{op: opFocalMask, reg: regMask, ref: id})
	}
	chosen := r.chosen
	r = c.result(node{op: opFocal, reg: f.reg, ref: id}, r.t, mask, r.nan)
	r.chosen = chosen
	return r, nil
}
