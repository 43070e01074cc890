package expr

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

type astKind uint8

const (
	astInt     astKind = iota // num
	astDecimal                // num; also nan, inf, pi
	astNodata
	astName    // text
	astPlace   // text: the name of a coordinate
	astUnary   // text: - + ~ not; args[0]
	astBinary  // text: + - * / % ** << >> & | and or
	astCompare // ops between args
	astIn      // text: in, not in; args: value, then the numbers
	astCond    // args: condition, then, else
	astCall    // text; args
	astIndex   // args: value, index
	astBands   // args
	astFile    // text: the name of a file
	astTimes   // the word times, the second argument of trend and the like
	astDisk    // num: radius; in place of a side
)

type ast struct {
	kind astKind
	pos  int
	text string
	num  float64
	args []*ast
	// parens is set if the text has it in parentheses.
	parens bool
	ops    []string // of a comparison chain
	at     []int    // positions of ops
	// focal is the neighbourhood of the call of a focal function.
	focal *neighbourhood
}

// Expr is a parsed expression. It is immutable.
type Expr struct {
	text        string
	definitions []definition
	root        *ast
	names       []string
	namesAt     []int // where they appear first
	tables      []string
	focal       bool // it, or one that it uses, has focal functions

	links  []link   // the expressions that it uses
	others []string // the names of all others
}

// definition is a named intermediate result: name = value.
type definition struct {
	name  string
	pos   int
	value *ast
}

// String returns the text that was parsed.
func (e *Expr) String() string { return e.text }

// Names returns the names of the inputs that the expression uses, in order of first appearance. For
// a linked expression, they include those of the expressions that it uses.
func (e *Expr) Names() []string { return append([]string(nil), e.names...) }

// Tables returns the names of the table files that the expression uses, for Options.Tables.
func (e *Expr) Tables() []string { return append([]string(nil), e.tables...) }

// Within returns the expression whose value is that of e where the input name is not 0, and nodata
// elsewhere.
func (e *Expr) Within(name string) *Expr {
	with, pos := *e, e.root.pos
	with.root = &ast{kind: astCond, pos: pos, args: []*ast{
		{kind: astName, pos: pos, text: name}, e.root, {kind: astNodata, pos: pos}}}
	if !slices.Contains(e.names, name) {
		with.names = append(slices.Clone(e.names), name)
	}
	return &with
}

// IsName reports whether a text has the form of a name: letters, digits and _, no digit first.
func IsName(s string) bool {
	for i, r := range s {
		if !isNameRune(r) || i == 0 && unicode.IsDigit(r) {
			return false
		}
	}
	return s != "" && utf8.ValidString(s)
}

// CheckName returns an error if an input cannot have this name in expressions.
func CheckName(name string) error {
	if !IsName(name) {
		return fmt.Errorf("expr: %q cannot be the name of an input: use letters, digits and _, no digit first", name)
	}
	if why := reserved(name); why != "" {
		return fmt.Errorf("expr: %q cannot be the name of an input: it is %s", name, why)
	}
	return nil
}

// reserved returns what a reserved name stands for, and "" for others. The name of a function is
// not reserved: the bracket after it makes the call.
func reserved(name string) string {
	switch name {
	case "and", "or", "not", "in":
		return "an operator"
	case "x", "y", "col", "row", "lon", "lat", "pixel_area":
		return "a coordinate of the pixel"
	case "nodata", "nan", "inf", "pi":
		return "a constant"
	}
	return ""
}
