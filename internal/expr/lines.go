package expr

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// timeline holds the times of the files of a list.
type timeline struct {
	name  string // of an input
	times []time.Time
	err   string // why they have no common times; then the rest is empty
}

// timesOf returns the times of the files of an input, or nil if none is known.
func timesOf(name string, files []File) *timeline {
	t := &timeline{name: name}
	known := false
	for _, f := range files {
		t.times = append(t.times, f.Time)
		known = known || !f.Time.IsZero()
	}
	if !known {
		return nil
	}
	return t
}

// merge returns the times of a value computed from lists with the times t and other, either of
// which may be nil.
func (t *timeline) merge(other *timeline) *timeline {
	switch {
	case t == nil:
		return other
	case other == nil || t.err != "" || t.name == other.name:
		return t
	case other.err != "":
		return other
	}
	for i := range min(len(t.times), len(other.times)) {
		if a, b := t.times[i], other.times[i]; !a.Equal(b) {
			return &timeline{err: fmt.Sprintf("the times of %s and %s differ: those of file %d are %s and %s", t.name,
				other.name, i+1, timeText(a), timeText(b))}
		}
	}
	return t
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// line compiles trend, intercept and r2 with positions, their second argument.
func (c *compiler) line(n *ast, o op) (value, error) {
	v, err := c.compile(n.args[0])
	if err != nil {
		return value{}, err
	}
	items := len(v.items)
	if !v.list {
		items = len(v.bands())
	}
	var xs []float64
	if second := n.args[1]; second.kind == astTimes {
		xs, err = c.elapsed(n, v)
	} else {
		xs, err = c.positions(n, items)
	}
	if err != nil {
		return value{}, err
	}
	return c.reduce(n, o, []value{v}, c.addLine(xs, n.args[1].kind == astTimes))
}

// elapsed returns the times of the list v in milliseconds from its first.
func (c *compiler) elapsed(n *ast, v value) ([]float64, error) {
	at, whose := n.args[0].pos, "this"
	if n.args[0].kind == astName {
		whose = n.args[0].text
	}
	t := v.times
	switch {
	case !v.list:
		return nil, c.fail(at, "times need a list of files: write numbers in brackets for the bands of %s", whose)
	case t == nil:
		return nil, &TypeError{Pos: at, Text: c.text, NoTime: true, Msg: whose + " has no times"}
	case t.err != "":
		return nil, c.fail(at, "%s", t.err)
	}
	var xs []float64
	for i, when := range t.times {
		if when.IsZero() {
			return nil, &TypeError{Pos: at, Text: c.text, NoTime: true, Msg: fmt.Sprintf("%s[%d] has no time", t.name, i+1)}
		}
		xs = append(xs, float64(when.UnixMilli()-t.times[0].UnixMilli()))
	}
	return xs, nil
}

// positions returns the numbers in the brackets of the second argument, from that of item 1.
func (c *compiler) positions(n *ast, items int) ([]float64, error) {
	numbers, err := c.numbers(n.args[1], n.text, false)
	if err != nil {
		return nil, err
	}
	if len(numbers) != items {
		return nil, c.fail(n.args[1].pos, "%s has %d numbers for %d items", n.text, len(numbers), items)
	}
	var xs []float64
	seen := map[float64]bool{}
	for i, k := range numbers {
		x := k.c - numbers[0].c
		if seen[x] || math.IsInf(x, 0) || math.IsNaN(x) {
			return nil, c.fail(n.args[1].args[i].pos, "%s has the number %v twice, or it is too large", n.text, k.c)
		}
		seen[x] = true
		xs = append(xs, x)
	}
	return xs, nil
}

// linePositions are the values of x of the items of a line.
type linePositions struct {
	xs    []float64
	times bool // x is in milliseconds, and the slope per day
}

// addLine returns the number, from 1, of these positions.
func (g *graph) addLine(xs []float64, times bool) int {
	key := []byte{0}
	if times {
		key[0] = 1
	}
	for _, x := range xs {
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(x))
	}
	if g.lineIndex == nil {
		g.lineIndex = map[string]int{}
	}
	i, ok := g.lineIndex[string(key)]
	if !ok {
		g.lines = append(g.lines, linePositions{xs, times})
		i = len(g.lines)
		g.lineIndex[string(key)] = i
	}
	return i
}

// line returns the positions whose number addLine returned, and none for 0.
func (g *graph) line(number int) linePositions {
	if number == 0 {
		return linePositions{}
	}
	return g.lines[number-1]
}

// lineKernel returns the instruction that fits a line through the valid items by least squares, in
// float64, as the guide says. Without positions they are 0, 1, 2 and so on.
func lineKernel(r regKind, items int, at linePositions) runner {
	if at.xs == nil {
		for j := range items {
			at.xs = append(at.xs, float64(j))
		}
	}
	unit := 1.0
	if at.times {
		unit = 24 * 60 * 60 * 1000
	}
	return byClass(r, func(ev *Evaluator, in *instr, n int) { lines[float32](ev, in, n, at.xs, unit) },
		func(ev *Evaluator, in *instr, n int) { lines[float64](ev, in, n, at.xs, unit) })
}

// lines computes the slope per unit of x, the value at the first item of the list, or the
// coefficient of determination.
func lines[T real](ev *Evaluator, in *instr, n int, xs []float64, unit float64) {
	r := vectors[T](ev)
	d := r[in.dst][:n]
	number, x, y := ev.floats(0)[:n], ev.floats(1)[:n], ev.floats(2)[:n] // their means
	clear(number)
	clear(x)
	clear(y)
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		if m == nil {
			for i, v := range a {
				number[i]++
				x[i] += xs[j]
				y[i] += float64(v)
			}
			continue
		}
		for i, ok := range m[:n] {
			number[i] += float64(ok)
			x[i] += kept(xs[j], ok)
			y[i] += kept(float64(a[i]), ok)
		}
	}
	xx, xy, yy := ev.floats(3)[:n], ev.floats(4)[:n], ev.floats(5)[:n]
	for i := range d {
		x[i] /= number[i]
		y[i] /= number[i]
	}
	clear(xx)
	clear(xy)
	clear(yy)
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		switch {
		case m == nil && in.op != opRedR2:
			for i, v := range a {
				dx := xs[j] - x[i]
				xx[i] += float64(dx * dx)
				xy[i] += float64(dx * (float64(v) - y[i]))
			}
			continue
		case m == nil:
			m = allValid
		}
		for i, ok := range m[:n] {
			dx, dy := kept(xs[j]-x[i], ok), kept(float64(a[i])-y[i], ok)
			xx[i] += float64(dx * dx)
			xy[i] += float64(dx * dy)
			yy[i] += float64(dy * dy)
		}
	}
	switch in.op {
	case opRedTrend:
		for i := range d {
			d[i] = T(float64(xy[i]/xx[i]) * unit) // 0/0 where no two items differ in x
		}
	case opRedIntercept:
		for i := range d {
			d[i] = T(y[i] - float64(xy[i]/xx[i]*x[i]))
		}
	default:
		markEqual[T](ev, in, n, yy)
		for i := range d {
			d[i] = T(min(1, xy[i]/xx[i]*(xy[i]/yy[i])))
		}
	}
}

// markEqual sets yy to NaN where all valid items are equal. The mean of float64 items may differ
// from them by its rounding; that of float32 items can't.
func markEqual[T real](ev *Evaluator, in *instr, n int, yy []float64) {
	if isFloat32[T]() {
		return
	}
	r := vectors[T](ev)
	first, state := ev.floats(6)[:n], ev.floats(7)[:n] // 0 no item, 1 equal ones, 2 others
	clear(state)
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		if m == nil {
			m = allValid
		}
		for i, ok := range m[:n] {
			switch v := float64(a[i]); {
			case ok == 0:
			case state[i] == 0:
				first[i], state[i] = v, 1
			case v != first[i]:
				state[i] = 2
			}
		}
	}
	for i := range yy {
		if state[i] < 2 {
			yy[i] = math.NaN()
		}
	}
}
