package expr

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

const (
	// maxLength bounds the text: fifty terms with coefficients in full precision take 2 KB,
	// generated expressions more. It also bounds the recursion of parser and compiler.
	maxLength = 64 << 10
	// maxDepth bounds nesting. Each level takes about ten frames of the parser, so that the deepest
	// text uses a few hundred kilobytes of stack. People write fewer than ten levels.
	maxDepth = 500
)

// Binding powers, weakest first.
const (
	bpCond = iota + 1
	bpOr
	bpAnd
	bpNot
	bpCompare
	bpBitOr
	bpBitAnd
	bpShift
	bpAdd
	bpMul
	bpUnary
	bpPower
)

var strength = map[string]int{
	"?": bpCond, "or": bpOr, "and": bpAnd,
	"<": bpCompare, "<=": bpCompare, ">": bpCompare, ">=": bpCompare, "==": bpCompare, "!=": bpCompare,
	"in": bpCompare, "not": bpCompare, // not in
	"|": bpBitOr, "&": bpBitAnd, "<<": bpShift, ">>": bpShift,
	"+": bpAdd, "-": bpAdd, "*": bpMul, "/": bpMul, "%": bpMul, "**": bpPower,
}

type parser struct {
	lexer
	tok     token
	depth   int
	names   []string
	namesAt []int
	tables  []string
	seen    map[string]bool

	definitions []definition
	defined     map[string]bool
	line        bool // the list to be parsed is that of a function whose last argument can be the word times
	neighbours  bool // a focal function was called
}

// Parse parses an expression. Its error is a *SyntaxError.
func Parse(text string) (*Expr, error) {
	p := &parser{lexer: lexer{text: text}, seen: map[string]bool{}, defined: map[string]bool{}}
	if len(text) > maxLength {
		p.text = text[:maxLength]
		return nil, p.fail(maxLength, "the expression is too long: %d bytes, the limit is %d", len(text),
			maxLength)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tokEnd {
		return nil, p.fail(0, "the expression is empty")
	}
	root, err := p.statements()
	if err != nil {
		return nil, err
	}
	return &Expr{text: text, definitions: p.definitions, root: root, names: p.names, namesAt: p.namesAt,
		tables: p.tables, focal: p.neighbours}, nil
}

// statements parses definitions and the value that ends them: v = a * 2; v + 1
func (p *parser) statements() (*ast, error) {
	for {
		name, ok := p.definedName()
		if ok {
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
		value, err := p.expr(0)
		if err != nil {
			return nil, err
		}
		switch {
		case p.tok.kind == tokEnd && ok:
			return nil, p.fail(p.tok.pos, "the expression ends with the definition of %s: write == to compare, or a value after a semicolon",
				short(name.text))
		case p.tok.kind == tokEnd:
			return value, nil
		case !p.is(";"):
			return nil, p.unexpected()
		}
		semicolon := p.tok.pos
		if err := p.advance(); err != nil {
			return nil, err
		}
		if !ok {
			if p.tok.kind == tokEnd {
				return value, nil
			}
			return nil, p.fail(semicolon, "the value before ; has no name: write name = value; for intermediate results")
		}
		why := reserved(name.text)
		switch {
		case why != "":
			return nil, p.fail(name.pos, "%s cannot be defined: it is %s", short(name.text), why)
		case p.defined[name.text]:
			return nil, p.fail(name.pos, "%s is defined twice", short(name.text))
		case p.seen[name.text]:
			return nil, p.fail(name.pos, "%s is used before its definition", short(name.text))
		}
		p.defined[name.text] = true
		p.definitions = append(p.definitions, definition{name.text, name.pos, value})
	}
}

// definedName returns the name of the definition that begins here and moves to the = after it. If
// there is no definition, it does not move.
func (p *parser) definedName() (name token, ok bool) {
	name, before := p.tok, p.lexer
	if name.kind != tokName {
		return name, false
	}
	if err := p.advance(); err == nil && p.is("=") {
		return name, true
	}
	p.tok, p.lexer = name, before
	return name, false
}

func (p *parser) advance() (err error) {
	p.tok, err = p.next()
	return err
}

func (p *parser) is(op string) bool { return p.tok.kind == tokOp && p.tok.text == op }

// expect consumes the operator op, or fails with what was being parsed.
func (p *parser) expect(op, what string) error {
	if !p.is(op) {
		if p.tok.kind == tokEnd {
			return p.fail(p.tok.pos, "the expression ends where %s of %s is expected", op, what)
		}
		if p.is("=") {
			return p.unexpected()
		}
		return p.fail(p.tok.pos, "expected %s of %s instead of %s", op, what, short(p.tok.text))
	}
	return p.advance()
}

func (p *parser) unexpected() error {
	t := p.tok
	switch {
	case t.kind == tokEnd:
		return p.fail(t.pos, "the expression ends too early: a value is missing")
	case t.kind == tokName && (t.text == "if" || t.text == "else"):
		return p.fail(t.pos, "unexpected %s: write condition ? a : b", t.text)
	case t.kind == tokName && (t.text == "AND" || t.text == "OR" || t.text == "NOT" || t.text == "IN"):
		return p.fail(t.pos, "unexpected %s: write %s", t.text, strings.ToLower(t.text))
	case t.kind == tokName || t.kind == tokInt || t.kind == tokDecimal:
		return p.fail(t.pos, "unexpected %s: an operator is missing before it", short(t.text))
	case t.kind == tokFile:
		return p.fail(t.pos, "unexpected @%s: write a[2] for a band", short(t.text))
	case t.text == "=":
		return p.fail(t.pos, "= is not an operator: write == to compare")
	case t.text == ")" || t.text == "]":
		return p.fail(t.pos, "%s without an opening bracket", t.text)
	case t.text == ",":
		return p.fail(t.pos, "unexpected comma: write [a, b] for several bands")
	}
	return p.fail(t.pos, "unexpected %s", short(t.text))
}

// expr parses operators that bind at least as tightly as bp, and their operands.
func (p *parser) expr(bp int) (*ast, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, p.fail(p.tok.pos, "nested too deeply: the limit is %d levels", maxDepth)
	}
	left, err := p.prefix(bp)
	if err != nil {
		return nil, err
	}
	for p.tok.kind == tokOp {
		op := p.tok
		power, ok := strength[op.text]
		if !ok || power < bp {
			break
		}
		switch power {
		case bpCond:
			left, err = p.cond(left)
		case bpCompare:
			if op.text == "in" || op.text == "not" {
				left, err = p.in(left)
			} else {
				left, err = p.compare(left)
			}
		default:
			if err = p.advance(); err != nil {
				return nil, err
			}
			var right *ast
			if power == bpPower {
				right, err = p.expr(bpUnary) // right-associative; allows 2**-1
			} else {
				right, err = p.expr(power + 1)
			}
			left = &ast{kind: astBinary, pos: op.pos, text: op.text, args: []*ast{left, right}}
		}
		if err != nil {
			return nil, err
		}
	}
	return left, nil
}

func (p *parser) cond(c *ast) (*ast, error) {
	pos := p.tok.pos
	if err := p.advance(); err != nil {
		return nil, err
	}
	a, err := p.expr(bpCond)
	if err != nil {
		return nil, err
	}
	if err := p.expect(":", "the condition's ?"); err != nil {
		return nil, err
	}
	b, err := p.expr(bpCond)
	if err != nil {
		return nil, err
	}
	return &ast{kind: astCond, pos: pos, args: []*ast{c, a, b}}, nil
}

func (p *parser) compare(first *ast) (*ast, error) {
	n := &ast{kind: astCompare, pos: p.tok.pos, args: []*ast{first}}
	for p.tok.kind == tokOp && strength[p.tok.text] == bpCompare {
		if p.is("in") || p.is("not") {
			return nil, p.fail(p.tok.pos, "in cannot follow a comparison: write parentheses")
		}
		n.ops = append(n.ops, p.tok.text)
		n.at = append(n.at, p.tok.pos)
		if err := p.advance(); err != nil {
			return nil, err
		}
		a, err := p.expr(bpCompare + 1)
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, a)
		if p.tok.kind == tokOp && strength[p.tok.text] == bpCompare {
			if err := p.checkMiddle(a); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// checkMiddle refuses an operand between two comparisons that is a & b or a | b: those who write
// a > 5 & a < 10 expect a > 5 and a < 10, as in C.
func (p *parser) checkMiddle(operand *ast) error {
	word := map[string]string{"&": "and", "|": "or"}[operand.text]
	if operand.kind != astBinary || operand.parens || word == "" {
		return nil
	}
	return p.fail(operand.pos, "%s binds more tightly than comparisons: write '%s', or parentheses", operand.text, word)
}

// in parses what follows the value of "value in [1, 2]" and "value not in [1, 2]".
func (p *parser) in(value *ast) (*ast, error) {
	n := &ast{kind: astIn, pos: p.tok.pos, text: "in", args: []*ast{value}}
	if p.is("not") {
		n.text = "not in"
		if err := p.advance(); err != nil {
			return nil, err
		}
		if !p.is("in") {
			return nil, p.fail(n.pos, "unexpected not: write 'and not' or 'not in'")
		}
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.is("[") {
		return nil, p.fail(p.tok.pos, "expected [ after %s: write a %s [1, 2, 3]", n.text, n.text)
	}
	items, err := p.list("]", "the numbers")
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, p.fail(n.pos, "%s has no numbers: write a %s [1, 2, 3]", n.text, n.text)
	}
	if p.tok.kind == tokOp && strength[p.tok.text] == bpCompare {
		return nil, p.fail(p.tok.pos, "a comparison cannot follow %s: write parentheses", n.text)
	}
	n.args = append(n.args, items...)
	return n, nil
}

// prefix parses a value with the signs before it and the indices after it.
func (p *parser) prefix(bp int) (*ast, error) {
	t := p.tok
	if t.kind == tokOp {
		inner := 0
		switch t.text {
		case "-", "+", "~":
			inner = bpUnary
		case "not":
			inner = bpNot
			if bp > bpNot {
				return nil, p.fail(t.pos, "not binds less tightly than the operator before it: write (not ...)")
			}
		}
		if inner > 0 {
			if err := p.advance(); err != nil {
				return nil, err
			}
			a, err := p.expr(inner)
			if err != nil {
				return nil, err
			}
			return &ast{kind: astUnary, pos: t.pos, text: t.text, args: []*ast{a}}, nil
		}
	}
	n, err := p.primary()
	if err != nil {
		return nil, err
	}
	for p.is("[") {
		pos := p.tok.pos
		if err := p.advance(); err != nil {
			return nil, err
		}
		i, err := p.expr(0)
		if err != nil {
			return nil, err
		}
		if err := p.expect("]", "the index"); err != nil {
			return nil, err
		}
		n = &ast{kind: astIndex, pos: pos, args: []*ast{n, i}}
	}
	if p.is("(") {
		return nil, p.fail(p.tok.pos, "an operator is missing before (")
	}
	return n, nil
}

func (p *parser) primary() (*ast, error) {
	t := p.tok
	switch {
	case t.kind == tokInt || t.kind == tokDecimal:
		kind := astInt
		if t.kind == tokDecimal {
			kind = astDecimal
		}
		return &ast{kind: kind, pos: t.pos, num: t.num}, p.advance()
	case t.kind == tokFile:
		if !slices.Contains(p.tables, t.text) {
			p.tables = append(p.tables, t.text)
		}
		return &ast{kind: astFile, pos: t.pos, text: t.text}, p.advance()
	case t.kind == tokName:
		if err := p.advance(); err != nil {
			return nil, err
		}
		return p.name(t)
	case p.is("("):
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.expr(0)
		if err != nil {
			return nil, err
		}
		n.parens = true
		return n, p.expect(")", "the parentheses")
	case p.is("["):
		args, err := p.list("]", "the bands")
		if err != nil {
			return nil, err
		}
		if len(args) == 0 {
			return nil, p.fail(t.pos, "empty []: expected at least one item")
		}
		return &ast{kind: astBands, pos: t.pos, args: args}, nil
	}
	return nil, p.unexpected()
}

func (p *parser) name(t token) (*ast, error) {
	if p.is("(") {
		if t.text == "disk" {
			return p.disk(t)
		}
		f, ok := functions[t.text]
		if !ok {
			return nil, &SyntaxError{Pos: t.pos, Text: p.text, Msg: unknownFunction(t.text), Unknown: t.text,
				Known: functionNames()}
		}
		p.line = lineFunctions[t.text]
		args, err := p.list(")", "the call of "+t.text)
		if err != nil {
			return nil, err
		}
		if len(args) < f.min || f.max >= 0 && len(args) > f.max {
			return nil, p.fail(t.pos, "%s has %d arguments: write %s", t.text, len(args), f.usage)
		}
		n := &ast{kind: astCall, pos: t.pos, text: t.text, args: args}
		if f.kind == "focal" {
			return p.focal(n)
		}
		return n, nil
	}
	switch t.text {
	case "nodata":
		return &ast{kind: astNodata, pos: t.pos}, nil
	case "x", "y", "col", "row", "lon", "lat", "pixel_area":
		return &ast{kind: astPlace, pos: t.pos, text: t.text}, nil
	case "nan":
		return &ast{kind: astDecimal, pos: t.pos, num: math.NaN()}, nil
	case "inf":
		return &ast{kind: astDecimal, pos: t.pos, num: math.Inf(1)}, nil
	case "pi":
		return &ast{kind: astDecimal, pos: t.pos, num: math.Pi}, nil
	}
	if !p.seen[t.text] && !p.defined[t.text] {
		p.seen[t.text] = true
		p.names = append(p.names, t.text)
		p.namesAt = append(p.namesAt, t.pos)
	}
	return &ast{kind: astName, pos: t.pos, text: t.text}, nil
}

// list parses comma-separated expressions, brackets included.
func (p *parser) list(closing, what string) ([]*ast, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	line := p.line
	p.line = false
	var args []*ast
	for !p.is(closing) {
		if line && len(args) == 1 {
			if word := p.times(); word != nil {
				args = append(args, word)
				break
			}
		}
		a, err := p.expr(0)
		if err != nil {
			return nil, err
		}
		args = append(args, a)
		if p.is(closing) {
			break
		}
		if !p.is(",") {
			return nil, p.expect(closing, what)
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.is(closing) {
			return nil, p.unexpected()
		}
	}
	return args, p.advance()
}

// times parses the word times before a closing bracket. It returns nil, and consumes nothing, if
// there is something else.
func (p *parser) times() *ast {
	word, before := p.tok, p.lexer
	if word.kind != tokName || word.text != "times" {
		return nil
	}
	if err := p.advance(); err == nil && p.is(")") {
		return &ast{kind: astTimes, pos: word.pos}
	}
	p.tok, p.lexer = word, before
	return nil
}

// unknownFunction returns the message for an unknown function, which suggests the name used here.
func unknownFunction(name string) string {
	switch name {
	case "isnan":
		return "no function isnan: a NaN is never valid, so write isnodata(a)"
	case "pow":
		return "no function pow: write a ** b"
	case "ln":
		return "no function ln: write log(a)"
	case "if", "ifelse", "iif":
		return "no function " + name + ": write condition ? a : b"
	case "average", "avg", "nanmean":
		return "no function " + name + ": write mean(list)"
	case "minimum", "maximum":
		return "no function " + name + ": write " + name[:3] + "(a, b)"
	case "nanmin", "nanmax", "nanmedian", "nanstd", "nanvar", "nansum", "nanpercentile", "nanquantile", "nanargmin", "nanargmax":
		return "no function " + name + ": write " + name[3:] + "(list)"
	case "arcsin", "arccos", "arctan", "arctan2":
		return "no function " + name + ": write " + strings.Replace(name, "arc", "a", 1)
	}
	if t, ok := conversions[strings.ToLower(name)]; ok {
		return "no function " + name + ": write " + t + "(a)"
	}
	return fmt.Sprintf("no function %s", short(name))
}

// conversions are the functions that convert to floats, by other names of their types.
var conversions = map[string]string{"float": "float64", "double": "float64", "single": "float32"}

func functionNames() []string { return slices.Sorted(maps.Keys(functions)) }

// attribute returns the message for .NAME after a name or a value, which Python has and expressions
// do not.
func attribute(object, name string) string {
	_, known := functions[name]
	switch {
	case object != "np" && object != "numpy" && name == "astype":
		return "values have no method astype: write float32(a) or float64(a); outputs have types of their own"
	case object != "np" && object != "numpy" && known:
		return fmt.Sprintf("values have no methods: write %s(...)", name)
	case object != "np" && object != "numpy":
		return "values have no attributes or methods"
	case known:
		return fmt.Sprintf("there are no modules: write %s(...) without %s", name, object)
	case name == "nan" || name == "inf" || name == "pi":
		return fmt.Sprintf("there are no modules: write %s without %s", name, object)
	case name == "":
		return "there are no modules"
	}
	return "there are no modules: " + unknownFunction(name)
}
