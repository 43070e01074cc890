package expr

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxTableRows bounds the rows of a table: their numbers are exact in float32.
const maxTableRows = 1 << 20

// tableRow maps the values from low to high to a new one.
type tableRow struct {
	line      int // in the file, from 1
	low, high float64
	value     val // a constant or the word nodata
}

// parseTable reads the text of a table. The rows are sorted by low.
func parseTable(text string) ([]tableRow, error) {
	var rows []tableRow
	columns, headed := 0, false
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := splitRow(strings.TrimSpace(line))
		if len(fields) == 0 {
			continue
		}
		if len(rows) == 0 && !headed {
			if headed = isHeader(fields); headed {
				continue
			}
		}
		row, err := parseRow(fields)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		case len(rows) > 0 && len(fields) != columns:
			return nil, fmt.Errorf("line %d has %d columns, line %d has %d", i+1, len(fields), rows[0].line, columns)
		case len(rows) == maxTableRows:
			return nil, fmt.Errorf("it has more than %d rows", maxTableRows)
		}
		columns = len(fields)
		row.line = i + 1
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, errors.New("it has no rows")
	}
	slices.SortStableFunc(rows, func(a, b tableRow) int {
		switch {
		case a.low < b.low || a.low == b.low && a.high < b.high:
			return -1
		case a.low == b.low && a.high == b.high:
			return 0
		}
		return 1
	})
	for i := 1; i < len(rows); i++ {
		switch a, b := &rows[i-1], &rows[i]; {
		case a.low == b.low && a.high == b.high && columns == 2:
			return nil, fmt.Errorf("lines %d and %d: the value %v twice", min(a.line, b.line), max(a.line, b.line), b.low)
		case b.low < a.high || a.low == b.low:
			return nil, fmt.Errorf("lines %d and %d: the ranges %v to %v and %v to %v overlap", min(a.line, b.line),
				max(a.line, b.line), a.low, a.high, b.low, b.high)
		}
	}
	return rows, nil
}

// isHeader reports whether fields are names of columns: none of them is a value of a row or begins
// like a number.
func isHeader(fields []string) bool {
	return !slices.ContainsFunc(fields, func(f string) bool {
		_, err := strconv.ParseFloat(f, 64)
		return err == nil || f == "nodata" || f != "" && strings.ContainsRune("+-.0123456789", rune(f[0]))
	})
}

// splitRow splits a line at semicolons, else at commas, else at blanks. Quotes around a field do
// not count.
func splitRow(line string) []string {
	var fields []string
	switch {
	case line == "":
		return nil
	case strings.Contains(line, ";"):
		fields = strings.Split(line, ";")
	case strings.Contains(line, ","):
		fields = strings.Split(line, ",")
	default:
		fields = strings.Fields(line)
	}
	for i, f := range fields {
		f = strings.TrimSpace(f)
		if len(f) >= 2 && f[0] == '"' && f[len(f)-1] == '"' {
			f = strings.TrimSpace(f[1 : len(f)-1])
		}
		fields[i] = f
	}
	return fields
}

func parseRow(fields []string) (r tableRow, err error) {
	n := len(fields)
	if n < 2 || n > 3 {
		return r, fmt.Errorf("%d columns, expected a value and a new value, or low, high and a new value", n)
	}
	if r.low, err = parseKey(fields[0]); err != nil {
		return r, err
	}
	if r.high, err = parseKey(fields[n-2]); err != nil {
		return r, err
	}
	if r.low > r.high {
		return r, fmt.Errorf("the low end %v is above the high end %v", r.low, r.high)
	}
	r.value, err = parseNew(fields[n-1])
	return r, err
}

func parseKey(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a number", short(text))
	}
	return v, nil
}

// parseNew reads a new value as a literal of the language: an integer, a decimal or nodata.
func parseNew(text string) (val, error) {
	if text == "nodata" {
		return val{t: typ{kind: kindNodata}}, nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		if i < -maxExact || i > maxExact {
			return val{}, fmt.Errorf("the integer %s is beyond 2^53, where float64 is no longer exact", text)
		}
		return val{t: intType(i, i), konst: true, c: float64(i), weak: true}, nil
	}
	v, err := parseKey(text)
	if err != nil {
		return val{}, fmt.Errorf("%q is neither a number nor nodata", short(text))
	}
	return decimal(v), nil
}

// table is a table whose rows are compared with values of one type.
type table struct {
	lows, highs []float64
	values      []float64 // 0 for nodata
	invalid     []bool    // the new value is nodata
	// direct maps the integers from first on to rows, if there are at most 65536; else it is nil.
	direct []uint32
	first  int64
}

// newTable prepares rows for values of type t.
func newTable(rows []tableRow, t typ) *table {
	tab := &table{}
	for _, r := range rows {
		low, high := r.low, r.high
		if t.kind == kindFloat && t.float == c32 {
			low, high = float64(float32(low)), float64(float32(high))
		}
		tab.lows, tab.highs = append(tab.lows, low), append(tab.highs, high)
		tab.values = append(tab.values, r.value.c)
		tab.invalid = append(tab.invalid, r.value.t.kind == kindNodata)
	}
	if t.kind == kindInt && t.hi-t.lo < 1<<16 {
		tab.first = t.lo
		tab.direct = make([]uint32, t.hi-t.lo+1)
		for i := range tab.direct {
			tab.direct[i] = uint32(tab.find(float64(t.lo + int64(i))))
		}
	}
	return tab
}

// find returns the number of the row, from 1, that has v: the last that begins at or below v, if it
// does not end before v. It returns 0 if there is none.
func (t *table) find(v float64) int {
	from, n := 0, len(t.lows)
	for n > 0 {
		half := n / 2
		if t.lows[from+half] <= v {
			from, n = from+half+1, n-half-1
		} else {
			n = half
		}
	}
	if from == 0 || !(v <= t.highs[from-1]) {
		return 0
	}
	return from
}

// recodeTable compiles recode(a, @FILE, otherwise).
func (c *compiler) recodeTable(n *ast) (value, error) {
	if len(n.args) > 3 {
		return value{}, c.fail(n.pos, "recode has %d arguments: write %s", len(n.args), functions[n.text].usage)
	}
	a, err := c.compile(n.args[0])
	if err != nil {
		return value{}, err
	}
	file := n.args[1]
	text, ok := c.tables[file.text]
	if !ok {
		return value{}, c.fail(file.pos, "the contents of the table %s are missing", file.text)
	}
	rows, err := parseTable(text)
	if err != nil {
		return value{}, c.fail(file.pos, "table %s: %v", file.text, err)
	}
	args := []value{a, single(val{t: typ{kind: kindNodata}})}
	if len(n.args) > 2 {
		if args[1], err = c.compile(n.args[2]); err != nil {
			return value{}, err
		}
	}
	return c.zip(n.pos, func(v []val) (val, error) { return c.lookUp(n.pos, file.text, v[0], rows, v[1]) }, args...)
}

// lookUp compiles the new value of the row that has v, or otherwise.
func (c *compiler) lookUp(pos int, name string, v val, rows []tableRow, otherwise val) (val, error) {
	if err := c.noNodata(pos, v); err != nil {
		return val{}, err
	}
	v = c.number(v)
	all := []val{otherwise}
	invalid := false
	for _, r := range rows {
		all = append(all, r.value)
		invalid = invalid || r.value.t.kind == kindNodata
	}
	t, err := c.unify(pos, all...)
	if err != nil {
		return val{}, err
	}
	if t.kind == kindFloat && constantBranches(all) {
		t = floatType(common(append(all, v)...))
	}
	t = t.asInt()
	cls := t.class()
	ref := c.lookup(name, rows, v.t)
	row := c.add(node{op: opTableRow, reg: reg32, ref: ref, args: []int{c.vec(v, v.t.class())}})
	found := c.add(node{op: opTruth, reg: regBool, args: []int{row}})
	out := val{t: t, chosen: selectionOf(all...), nan: otherwise.nan}
	out.node = c.add(node{op: opTableValue, reg: cls.reg(), ref: ref, args: []int{row}})
	out.node = c.add(node{op: opWhere, reg: cls.reg(), args: []int{found, out.node, c.as(otherwise, t)}})
	valid, mask := c.validMask(v), 0
	if invalid {
		mask = c.add(node{op: opTableMask, reg: regMask, ref: ref, args: []int{row}})
	}
	if m := c.branchMask(otherwise); m != mask {
		mask = c.add(node{op: opMaskWhere, reg: regMask, args: []int{found, valid, mask, m}})
	}
	out.mask = c.both(valid, mask)
	return out, nil
}

// lookup returns the number of the table for values of type t.
func (c *compiler) lookup(name string, rows []tableRow, t typ) int {
	key := fmt.Sprint(name, t.kind, t.float, t.lo, t.hi)
	i, ok := c.lookupIndex[key]
	if !ok {
		i = len(c.lookups)
		c.lookups = append(c.lookups, newTable(rows, t))
		c.lookupIndex[key] = i
	}
	return i
}

// tableRows returns the instruction that finds the row of each value, as a number from 1, or 0.
func tableRows[T real](t *table) runner {
	return func(ev *Evaluator, in *instr, n int) {
		d, a := ev.r32[in.dst][:n], vectors[T](ev)[in.args[0]][:n]
		if t.direct == nil {
			for i, v := range a {
				d[i] = float32(t.find(float64(v)))
			}
			return
		}
		for i, v := range a {
			// An invalid pixel can have any value.
			if k := int64(v) - t.first; uint64(k) < uint64(len(t.direct)) {
				d[i] = float32(t.direct[k])
			} else {
				d[i] = 0
			}
		}
	}
}

// tableValues returns the instruction that finds the new values of rows, and 0 without a row.
func tableValues[T real](t *table) runner {
	values := make([]T, len(t.values)+1)
	for i, v := range t.values {
		values[i+1] = T(v)
	}
	return func(ev *Evaluator, in *instr, n int) {
		d, rows := vectors[T](ev)[in.dst][:n], ev.r32[in.args[0]][:n]
		for i, r := range rows {
			d[i] = values[int(r)]
		}
	}
}

// tableMask returns the instruction whose mask is invalid where the new value is nodata.
func tableMask(t *table) runner {
	valid := make([]byte, len(t.invalid)+1)
	valid[0] = 1
	for i, invalid := range t.invalid {
		valid[i+1] = one(!invalid)
	}
	return func(ev *Evaluator, in *instr, n int) {
		d, rows := ev.maskBuffer(in, n), ev.r32[in.args[0]][:n]
		for i, r := range rows {
			d[i] = valid[int(r)]
		}
	}
}

// tableKernel returns the instruction of an operation on a table. src is the kind of its operand.
func tableKernel(o op, reg, src regKind, t *table) runner {
	switch o {
	case opTableRow:
		return byClass(src, tableRows[float32](t), tableRows[float64](t))
	case opTableValue:
		return byClass(reg, tableValues[float32](t), tableValues[float64](t))
	}
	return tableMask(t)
}
