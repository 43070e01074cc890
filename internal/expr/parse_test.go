package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// show returns a tree with all its parentheses.
func (n *ast) show() string {
	var args []string
	for _, a := range n.args {
		args = append(args, a.show())
	}
	switch n.kind {
	case astInt, astDecimal:
		return fmt.Sprint(n.num)
	case astNodata:
		return "nodata"
	case astName:
		return n.text
	case astUnary:
		return "(" + n.text + " " + args[0] + ")"
	case astBinary:
		return "(" + args[0] + " " + n.text + " " + args[1] + ")"
	case astCompare:
		s := "(" + args[0]
		for i, o := range n.ops {
			s += " " + o + " " + args[i+1]
		}
		return s + ")"
	case astCond:
		return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")"
	case astCall:
		return n.text + "(" + strings.Join(args, ", ") + ")"
	case astIn:
		return "(" + args[0] + " " + n.text + " [" + strings.Join(args[1:], ", ") + "])"
	case astIndex:
		return args[0] + "[" + args[1] + "]"
	}
	return "[" + strings.Join(args, ", ") + "]"
}

func TestOperatorPrecedence(t *testing.T) {
	for text, want := range map[string]string{
		"a + b * c":               "(a + (b * c))",
		"a - b - c":               "((a - b) - c)",
		"-a**2":                   "(- (a ** 2))",
		"-a * b":                  "((- a) * b)",
		"2**3**2":                 "(2 ** (3 ** 2))",
		"2**-1":                   "(2 ** (- 1))",
		"a**-b**c":                "(a ** (- (b ** c)))",
		"a % b / c":               "((a % b) / c)",
		"not a > 0":               "(not (a > 0))",
		"not a and b":             "((not a) and b)",
		"a or b and c":            "(a or (b and c))",
		"a < b <= c":              "(a < b <= c)",
		"a < (b & c) <= d":        "(a < (b & c) <= d)",
		"qa & 4 == 0 and a | b":   "(((qa & 4) == 0) and (a | b))",
		"a < b + 1 == c":          "(a < (b + 1) == c)",
		"a ? b : c ? d : e":       "(a ? b : (c ? d : e))",
		"a ? b ? c : d : e":       "(a ? (b ? c : d) : e)",
		"a or b ? c : d":          "((a or b) ? c : d)",
		"a | b & c << 1 + 2":      "(a | (b & (c << (1 + 2))))",
		"a & b == c":              "((a & b) == c)",
		"~a ** 2 & -b":            "((~ (a ** 2)) & (- b))",
		"not a in [1, -2]":        "(not (a in [1, (- 2)]))",
		"a + 1 not in [2] or b":   "(((a + 1) not in [2]) or b)",
		"a # b\n + c":             "(a + c)",
		"a;":                      "a",
		"a[1][2] ** 2":            "(a[1][2] ** 2)",
		"-a[1]":                   "(- a[1])",
		"[a, b + 1]":              "[a, (b + 1)]",
		"min(a, b) + .5":          "(min(a, b) + 0.5)",
		"0x1F + 1e-3 + 5.":        "((31 + 0.001) + 5)",
		"not not a":               "(not (not a))",
		"+a - -b":                 "((+ a) - (- b))",
		" a\n\t+ b ":              "(a + b)",
		"(((a)))":                 "a",
		"größe * 2":               "(größe * 2)",
		"a and not b":             "(a and (not b))",
		"where(a, nodata, b)":     "where(a, nodata, b)",
		"a > 0 ? log(a) : nodata": "((a > 0) ? log(a) : nodata)",
	} {
		e, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := e.root.show(); got != want {
			t.Errorf("%s is read as %s, not %s", text, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		pos  int
		want string
	}{
		{"a ^ b", 2, "write **"},
		{"a && b", 2, "write 'and'"},
		{"a || b", 2, "write 'or'"},
		{"a // b", 2, "floor(a / b)"},
		{"a = b", 5, "write =="},
		{"(a = b)", 3, "write =="},
		{"a + b = 3", 6, "write =="},
		{"sqrt(a = 3)", 7, "write =="},
		{"in = a; 1", 0, "unexpected in"},
		{"v = a", 5, "definition of v"},
		{"v = a;", 6, "too early"},
		{"v = a; v = b; v", 7, "defined twice"},
		{"v = w; w = a; v", 7, "used before"},
		{"v = a; # v + 1", 14, "too early"},
		{"# nothing", 0, "empty"},
		{"a in b", 5, "expected [ after in"},
		{"a in []", 2, "no numbers"},
		{"a not b", 2, "and not"},
		{"a < b in [1]", 6, "write parentheses"},
		{"a in [1] == 1", 9, "write parentheses"},
		{"a > 5 & a < 10", 6, "& binds more tightly than comparisons: write 'and', or parentheses"},
		{"a == 3 | a == 4", 7, "write 'or', or parentheses"},
		{"a > 0 & b > 0 & c > 0", 6, "write 'and'"},
		{"!a", 0, "write 'not'"},
		{"a <> b", 2, "write !="},
		{"a => b", 2, "write >="},
		{"a; b", 1, "has no name"},
		{"", 0, "empty"},
		{"  ", 0, "empty"},
		{"a +", 3, "ends too early"},
		{"a b", 2, "operator is missing"},
		{"2a", 1, "write * to multiply"},
		{"1.2.3", 3, "after the number"},
		{"1e", 1, "after the number"},
		{"0x", 0, "digits are missing"},
		{"(a + b", 6, "expected"},
		{"a + b)", 5, "without an opening bracket"},
		{"a, b", 1, "write [a, b]"},
		{"[]", 0, "at least one item"},
		{"[a,]", 3, "without"},
		{"a ? b", 5, ": of the condition"},
		{"a if b else c", 2, "condition ? a : b"},
		{"a == not b", 5, "(not ...)"},
		{"foo(a)", 0, "no function foo"},
		{"pow(a, 2)", 0, "a ** b"},
		{"isnan(a)", 0, "isnodata"},
		{"min()", 0, "has 0 arguments"},
		{"clip(a, 1)", 0, "clip(a, low, high)"},
		{"x = a; x + 1", 0, "coordinate"},
		{"a(b)", 0, "no function a"},
		{"(a)(b)", 3, "operator is missing"},
		{"9007199254740993", 0, "2^53"},
		{"1e999", 0, "beyond"},
		{"a \xff", 2, "0xff"},
		{"a $ b", 2, "unexpected character"},
		{"a['red']", 2, "strings are not supported"},
		{strings.Repeat("(", 501) + "a", 500, "nested too deeply"},
		{strings.Repeat("-", 600) + "a", 500, "nested too deeply"},
		{strings.Repeat("a ? ", 600) + "a", 2000, "nested too deeply"},
		{strings.Repeat("2**", 600) + "a", 1500, "nested too deeply"},
	} {
		_, err := Parse(c.text)
		var s *SyntaxError
		if !errors.As(err, &s) {
			t.Errorf("%.40s: %v", c.text, err)
			continue
		}
		if s.Pos != c.pos || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: position %d, not %d: %v", c.text, s.Pos, c.pos, err)
		}
	}
}

func TestErrorShowsItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"a + * b":                   "expression, column 5: unexpected *\n  a + * b\n      ^",
		"v = a * 2; # twice\nv ^ 2": "expression, line 2, column 3: ^ is not an operator: write ** for a power\n  v ^ 2\n    ^",
		"a ^ 2\n":                   "expression, column 3: ^ is not an operator: write ** for a power\n  a ^ 2 \n    ^",
		"v = a;\n\n":                "expression, column 9: the expression ends too early: a value is missing\n  v = a;  \n          ^",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v\nnot\n%s", text, err, want)
		}
	}
}

func TestParseDeepNesting(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("(", 5_000_000) + "a" + strings.Repeat(")", 5_000_000),
		strings.Repeat("[", 5_000_000),
		strings.Repeat("-", 5_000_000),
		strings.Repeat("a+", 5_000_000) + "a",
	} {
		_, err := Parse(text)
		if err == nil || len(err.Error()) > 500 || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%v", err)
		}
	}
	long := strings.Repeat("a+", maxLength/2-1) + "a"
	e, err := Parse(long)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compileText(long, map[string]Input{"a": oneBand(1, false)}, nil); err != nil {
		t.Error(err)
	}
	if n := e.Names(); len(n) != 1 || n[0] != "a" {
		t.Errorf("names %v", n)
	}
}

func TestErrorColumn(t *testing.T) {
	_, err := Parse("größe + (b ^ 2)")
	want := "expression, column 12: ^ is not an operator: write ** for a power\n  größe + (b ^ 2)\n             ^"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestNamesOrder(t *testing.T) {
	e, err := Parse("(nir - red) / (nir + red) + pi * blue[1] + (nodata > 0)")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(e.Names(), " "); got != "nir red blue" {
		t.Errorf("%s", got)
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"x", "y", "nodata", "nan", "inf", "pi", "and", "or", "not", "in", "col", "row", "",
		"2a", "a-b", "a b"} {
		if CheckName(name) == nil {
			t.Errorf("%q is allowed", name)
		}
	}
	for _, name := range []string{"a", "red", "B04", "_", "größe", "x1", "r2", "median"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
}
