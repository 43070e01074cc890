package expr

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"leat/block"
	"leat/ndarray"
)

// maxNodes bounds the vector operations of a program, since lists and bands multiply those of the
// text. Each is a pass over a chunk: a program that needs more has wrong inputs.
const maxNodes = 1 << 18

// Band describes one band of an input.
type Band struct {
	Type   ndarray.DType
	Nodata *ndarray.Scalar // of type Type; nil if there is none
	// Masked reports whether a mask, an alpha band or the input's extent can make pixels invalid.
	Masked bool
	// The value is pixel*Scale + Offset, as a float32 for 8- and 16-bit types and float32, else as
	// a float64. If both are 0, or they are 1 and 0, the value is the pixel.
	Scale, Offset float64
}

func (b *Band) raw() bool { return b.Offset == 0 && (b.Scale == 0 || b.Scale == 1) }

// File holds the bands of one file.
type File struct {
	Bands []Band
	Time  time.Time // when it was taken; zero if unknown
}

// Input is the data behind a name.
type Input struct {
	Files []File
	List  bool // name[i] selects a file; otherwise there is one file and name[i] selects a band
	// Groups are the numbers of consecutive files that make up each item of a list. An item's value
	// is that of its first file that is valid at the pixel. nil means that each file is an item.
	Groups []int
}

// firstFiles returns the first file of each item of a list.
func (in *Input) firstFiles() []File {
	if in.Groups == nil {
		return in.Files
	}
	var files []File
	next := 0
	for _, size := range in.Groups {
		if next < len(in.Files) {
			files = append(files, in.Files[next])
		}
		next += size
	}
	return files
}

// Options describe the output. nil is the zero value.
type Options struct {
	Type ndarray.DType // of the output; NoType selects it by the expression
	// The stored pixel is (value-Offset)/Scale, so that pixel*Scale + Offset is the value. A Scale
	// of 0 means 1.
	Scale, Offset float64
	Nodata        string // a number or "nan"; "none" for none; "" for the default
	NoMask        bool   // ignore nodata, masks and extents of the inputs: all pixels but NaN are valid
	// Width and Height are the size of the raster, which the coordinates col and row stay below. 0
	// means unknown, up to 2^31.
	Width, Height int
	// Tables are the contents of the files that Expr.Tables names.
	Tables map[string]string

	// Domain is the window in which focal functions see pixels, in columns and rows of the raster,
	// which it contains; empty means the raster itself. Margin is what they see outside it.
	Domain block.Window
	Margin block.Margin
	Ground Ground // of terrain functions
}

// Ground is what the coordinates of a raster measure.
type Ground uint8

const (
	GroundUnits   Ground = iota // lengths
	GroundDegrees               // degrees of longitude and latitude
	NoGround                    // the raster is not georeferenced
	UnknownGround               // unknown, since the CRS is neither projected nor geographic
)

// Ref identifies a band that a program reads.
type Ref struct {
	Name string
	File int // counts from 0
	Band int // counts from 1
}

type compiler struct {
	*graph
	text   string
	inputs map[string]Input
	noMask bool
	refs   []Ref
	index  map[Ref]int
	bandOf []Band
	// defined holds the values of the names that the expression defines, and those of the
	// expressions that it uses.
	defined map[string]value
	linked  map[string]value // of expressions
	others  []string         // the names of other expressions

	base          int // the number of nodes before those of the expression
	width, height int
	placed        bool // the expression uses coordinates
	geodetic      bool // it uses lon, lat or pixel_area
	tables        map[string]string

	focals     []focalNode // each after those that its operand uses
	focalIndex map[string]int
	isFocal    bool         // the expression has focal functions
	domain     block.Window // of focal functions
	margin     block.Margin
	ground     Ground
}

// Compile checks e against its inputs and returns the program that computes it. Inputs that the
// expression does not use are ignored. It returns a *TypeError for errors in the expression and a
// plain error for wrong options.
func Compile(e *Expr, inputs map[string]Input, opts *Options) (*Program, error) {
	if opts == nil {
		opts = &Options{}
	}
	c := newCompiler(inputs, opts)
	o, err := c.output(e, opts)
	if err != nil {
		return nil, err
	}
	return c.build(o), nil
}

func newCompiler(inputs map[string]Input, opts *Options) *compiler {
	c := &compiler{graph: newGraph(), inputs: inputs, noMask: opts.NoMask, index: map[Ref]int{}, width: opts.Width,
		height: opts.Height, tables: opts.Tables, focalIndex: map[string]int{}, domain: opts.Domain,
		margin: opts.Margin, ground: opts.Ground}
	if c.domain.Empty() {
		c.domain = block.Window{Width: opts.Width, Height: opts.Height}
	}
	return c
}

// output compiles an expression.
func (c *compiler) output(e *Expr, opts *Options) (*Output, error) {
	c.base, c.text, c.linked = len(c.nodes), e.text, map[string]value{}
	c.isFocal, c.placed, c.geodetic = e.focal, false, false
	v, err := c.expression(e)
	if err != nil {
		return nil, err
	}
	if v.list {
		return nil, c.fail(e.root.pos, "the result is a list of %d files: pick one with name[i], or reduce it, as in median(list)", len(v.items))
	}
	return c.finish(e, v.bands(), opts)
}

func (c *compiler) fail(pos int, format string, args ...any) error {
	return &TypeError{Pos: pos, Msg: fmt.Sprintf(format, args...), Text: c.text}
}

func (c *compiler) bounded(pos int) error {
	if len(c.nodes)-c.base > maxNodes {
		return c.fail(pos, "too many bands: the expression needs more than %d vector operations", maxNodes)
	}
	return nil
}

func (c *compiler) compile(n *ast) (value, error) {
	switch n.kind {
	case astInt:
		return single(val{t: intType(int64(n.num), int64(n.num)), konst: true, c: n.num, weak: true}), nil
	case astDecimal:
		return single(decimal(n.num)), nil
	case astPlace:
		return single(c.coordinate(n.text)), nil
	case astNodata:
		return single(val{t: typ{kind: kindNodata}}), nil
	case astName:
		return c.name(n)
	case astIndex:
		return c.pick(n)
	case astBands:
		return c.stack(n)
	case astFile:
		return value{}, c.fail(n.pos, "a file can only be the table of recode: write recode(a, @table.csv)")
	case astDisk:
		return value{}, c.fail(n.pos, "a disk can only be in place of a side: write focal_mean(a, disk(2))")
	case astCall:
		return c.call(n)
	case astIn:
		return c.in(n)
	}
	args := make([]value, len(n.args))
	for i, a := range n.args {
		var err error
		if args[i], err = c.compile(a); err != nil {
			return value{}, err
		}
	}
	switch n.kind {
	case astCond:
		return c.zip(n.pos, func(v []val) (val, error) { return c.choose(n.pos, v[0], v[1], v[2]) }, args...)
	case astUnary:
		return c.zip(n.pos, func(v []val) (val, error) { return c.unary(n.pos, n.text, v[0]) }, args...)
	case astCompare:
		return c.zip(n.pos, func(v []val) (val, error) { return c.chain(n, v) }, args...)
	}
	return c.zip(n.pos, func(v []val) (val, error) {
		switch n.text {
		case "and", "or":
			return c.logic(n.pos, n.text, v[0], v[1])
		case "**":
			return c.power(n.pos, v[0], v[1])
		case "<<", ">>", "&", "|":
			return c.bitwise(n.pos, n.text, v[0], v[1])
		}
		return c.arith(n.pos, n.text, v[0], v[1])
	}, args...)
}

func decimal(v float64) val {
	return val{t: floatType(c64), konst: true, c: v, weak: true, nan: math.IsNaN(v)}
}

func (c *compiler) name(n *ast) (value, error) {
	if v, ok := c.defined[n.text]; ok {
		return v, nil
	}
	in, ok := c.inputs[n.text]
	if f, function := functions[n.text]; function && !ok {
		return value{}, c.fail(n.pos, "no input is named %s; it is a function: write %s", n.text, f.usage)
	}
	if !ok {
		if len(c.inputs) == 0 {
			return value{}, c.fail(n.pos, "no input is named %s: there are no inputs", n.text)
		}
		var names []string
		for k := range c.inputs {
			names = append(names, k)
		}
		sort.Strings(names)
		msg := fmt.Sprintf("no input is named %s; the inputs are %s", n.text, strings.Join(names, ", "))
		if len(c.others) > 0 {
			msg += ", other expressions are " + strings.Join(c.others, ", ")
		}
		return value{}, &TypeError{Pos: n.pos, Text: c.text, Unknown: n.text, Known: append(names, c.others...),
			Msg: msg}
	}
	if len(in.Files) == 0 {
		return value{}, c.fail(n.pos, "input %s has no files", n.text)
	}
	if !in.List && len(in.Files) > 1 {
		return value{}, fmt.Errorf("expr: input %s has %d files but is not a list", n.text, len(in.Files))
	}
	out := value{list: in.List, from: n.text}
	if in.List {
		out.times = timesOf(n.text, in.firstFiles())
	}
	for f := range in.Files {
		var row []val
		for b := range in.Files[f].Bands {
			v, err := c.load(n.pos, Ref{n.text, f, b + 1}, &in.Files[f].Bands[b])
			if err != nil {
				return value{}, err
			}
			row = append(row, v)
		}
		if len(row) == 0 {
			return value{}, c.fail(n.pos, "input %s has no bands", n.text)
		}
		out.items = append(out.items, row)
		if err := c.bounded(n.pos); err != nil {
			return value{}, err
		}
	}
	return c.group(n, out, in.Groups)
}

// group combines the items of a list whose files belong together.
func (c *compiler) group(n *ast, v value, groups []int) (value, error) {
	if len(groups) == 0 || len(groups) == len(v.items) {
		return v, nil
	}
	out := v
	out.items = nil
	for _, size := range groups {
		if size < 1 || size > len(v.items) {
			return value{}, fmt.Errorf("expr: a group of %d of %d files of %s", size, len(v.items), n.text)
		}
		files := v.items[:size]
		v.items = v.items[size:]
		row := make([]val, len(files[0]))
		for b := range row {
			var bands []val
			for _, f := range files {
				if len(f) != len(row) {
					return value{}, c.fail(n.pos, "files of %s that make up one item have %d and %d bands", n.text, len(row), len(f))
				}
				bands = append(bands, f[b])
			}
			var err error
			if row[b], err = c.coalesce(n.pos, bands); err != nil {
				return value{}, err
			}
		}
		out.items = append(out.items, row)
	}
	if len(v.items) > 0 {
		return value{}, fmt.Errorf("expr: %d files of %s are in no group", len(v.items), n.text)
	}
	return out, nil
}

// load returns the value of a band. A later step drops the bands that no result depends on.
func (c *compiler) load(pos int, r Ref, b *Band) (val, error) {
	t, ok := bandType(b.Type)
	if !ok {
		what := "expressions compute with real numbers only"
		if b.Type == ndarray.Float16 {
			what = "widen it to float32 first"
		}
		return val{}, c.fail(pos, "%s is %v: %s", r, b.Type, what)
	}
	if math.IsNaN(b.Scale) || math.IsInf(b.Scale, 0) || math.IsNaN(b.Offset) || math.IsInf(b.Offset, 0) {
		return val{}, c.fail(pos, "%s has scale %v and offset %v", r, b.Scale, b.Offset)
	}
	if b.Nodata != nil && b.Nodata.Type != b.Type {
		return val{}, fmt.Errorf("expr: the nodata value of %s is %v, its pixels are %v", r, b.Nodata.Type, b.Type)
	}
	if !b.raw() {
		t = floatType(t.class())
	}
	i, ok := c.index[r]
	if !ok {
		i = len(c.refs)
		c.index[r] = i
		c.refs = append(c.refs, r)
		c.bandOf = append(c.bandOf, *b)
	}
	v := val{t: t}
	if !c.noMask && (b.Nodata != nil || b.Masked || b.Type.IsFloat()) {
		v.mask = c.add(node{op: opLoadMask, reg: regMask, ref: i})
	}
	// A scale of 0 turns an infinite pixel into NaN.
	v.nan = b.Type.IsFloat() && (c.noMask || !b.raw())
	var args []int
	if b.Type.IsInteger() && b.Type.Size() == 8 {
		args = []int{v.mask}
	}
	v.node = c.add(node{op: opLoad, reg: t.class().reg(), args: args, ref: i})
	if b.raw() {
		v.chosen = &selection{refs: []int{i}}
	}
	return v, nil
}

func (r Ref) String() string { return fmt.Sprintf("%s[%d]", r.Name, r.Band) }

// pick compiles name[i]: a file of a list, else a band.
func (c *compiler) pick(n *ast) (value, error) {
	v, err := c.compile(n.args[0])
	if err != nil {
		return value{}, err
	}
	iv, err := c.compile(n.args[1])
	if err != nil {
		return value{}, err
	}
	k := iv.bands()[0]
	if iv.list || len(iv.bands()) != 1 || !k.konst || k.t.kind != kindInt {
		return value{}, c.fail(n.args[1].pos, "an index must be a literal integer")
	}
	what, have := "band", len(v.bands())
	if v.list {
		what, have = "file", len(v.items)
	}
	whose := "this"
	if n.args[0].kind == astName {
		whose = n.args[0].text
	}
	i := int64(k.c)
	if i < 1 {
		return value{}, c.fail(n.args[1].pos, "no %s %d: %ss count from 1", what, i, what)
	}
	if i > int64(have) {
		if have != 1 {
			what += "s"
		}
		return value{}, c.fail(n.args[1].pos, "index %d is out of range: %s has %d %s", i, whose, have, what)
	}
	if v.list {
		return value{items: [][]val{v.items[i-1]}}, nil
	}
	return single(v.bands()[i-1]), nil
}

// stack compiles [a, b]: all bands of the items, in order.
func (c *compiler) stack(n *ast) (value, error) {
	var row []val
	for _, a := range n.args {
		v, err := c.compile(a)
		if err != nil {
			return value{}, err
		}
		for _, item := range v.items {
			if v.list && len(item) != 1 {
				return value{}, c.fail(a.pos,
					"a list of files with %d bands cannot be in []: pick files or bands with name[i]", len(item))
			}
			row = append(row, item...)
		}
		if len(row) > maxNodes {
			return value{}, c.fail(a.pos, "too many bands")
		}
	}
	for _, v := range row {
		if v.t.kind == kindNodata {
			return value{}, c.fail(n.pos, "nodata can only be a branch of ?: or where")
		}
	}
	return value{items: [][]val{row}}, nil
}
