package npy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseElem parses what [Elem.Descr] returns: the element type of a .npy header as a Python
// literal, with its quotes or brackets, in little-endian order. Like Python it accepts blanks,
// double quotes and trailing commas. Its error wraps ErrFormat or ErrUnsupported.
func ParseElem(descr string) (Elem, error) {
	if len(descr) > maxDescr {
		return Elem{}, fmt.Errorf("%w: description of %d characters, expected at most %d", ErrFormat, len(descr), maxDescr)
	}
	p := literal{s: descr}
	e, err := p.elem(0)
	if err == nil && p.next() != 0 {
		err = p.fail("text after the description")
	}
	if err != nil {
		return Elem{}, wrapError(err)
	}
	return e, nil
}

// literal parses the few Python literals that NumPy writes into headers.
type literal struct {
	s string
	i int
}

func (p *literal) fail(what string) error {
	return fmt.Errorf("%s at character %d", what, p.i)
}

// next skips blanks and returns the next character, 0 at the end. A NUL in the text becomes 1,
// which no caller accepts.
func (p *literal) next() byte {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		return 0
	}
	return max(p.s[p.i], 1)
}

func (p *literal) expect(c byte) error {
	if p.next() != c {
		return p.fail(fmt.Sprintf("expected %q", c))
	}
	p.i++
	return nil
}

// more skips the comma before the next part of a list and reports whether there is one, or leaves
// the parser at the end of the list. It is called before each part; first means that none was
// parsed yet.
func (p *literal) more(end byte, first bool) (bool, error) {
	if p.next() == end {
		return false, nil
	}
	if !first {
		if err := p.expect(','); err != nil {
			return false, p.fail(fmt.Sprintf("expected ',' or %q", end))
		}
	}
	return p.next() != end, nil
}

func (p *literal) text() (string, error) {
	quote := p.next()
	if quote != '\'' && quote != '"' {
		return "", p.fail("expected a string")
	}
	rest := p.s[p.i+1:]
	n := strings.IndexByte(rest, quote)
	if n < 0 {
		return "", p.fail("unterminated string")
	}
	if strings.IndexByte(rest[:n], '\\') >= 0 {
		return "", p.fail("string with a backslash")
	}
	p.i += n + 2
	return rest[:n], nil
}

func (p *literal) boolean() (bool, error) {
	p.next()
	for _, v := range []string{"True", "False"} {
		if strings.HasPrefix(p.s[p.i:], v) {
			p.i += len(v)
			return v == "True", nil
		}
	}
	return false, p.fail("expected True or False")
}

// tuple parses a tuple of numbers. As in Python, (3) is not a tuple.
func (p *literal) tuple() ([]int, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	var list []int
	for {
		more, err := p.more(')', list == nil)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		from := p.i
		for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
			p.i++
		}
		n, err := strconv.Atoi(p.s[from:p.i])
		if err != nil {
			return nil, p.fail("expected a dimension")
		}
		if p.i < len(p.s) && p.s[p.i] == 'L' { // written by Python 2
			p.i++
		}
		if list = append(list, n); len(list) > maxDims {
			return nil, p.fail(fmt.Sprintf("more than %d dimensions", maxDims))
		}
		if len(list) == 1 && p.next() == ')' {
			return nil, p.fail("expected a tuple, found a number in brackets")
		}
	}
	p.i++
	return list, nil
}

// elem parses a string such as '<f4' or a list of fields.
func (p *literal) elem(depth int) (Elem, error) {
	if p.next() != '[' {
		code, err := p.text()
		if err != nil {
			return Elem{}, err
		}
		return plainOf(code)
	}
	if depth >= maxNesting {
		return Elem{}, p.fail(fmt.Sprintf("records nested more than %d deep", maxNesting))
	}
	p.i++
	var b recordBuilder
	for first := true; ; first = false {
		more, err := p.more(']', first)
		if err != nil {
			return Elem{}, err
		}
		if !more {
			break
		}
		if err := p.field(&b, depth); err != nil {
			return Elem{}, err
		}
	}
	p.i++
	return b.done()
}

// field parses a tuple of name, type and perhaps a shape.
func (p *literal) field(b *recordBuilder, depth int) error {
	if err := p.expect('('); err != nil {
		return err
	}
	if p.next() == '(' {
		return unsupported("field with a title")
	}
	name, err := p.text()
	if err != nil {
		return err
	}
	if err := p.expect(','); err != nil {
		return err
	}
	if name == "" {
		n, err := p.void()
		if err != nil {
			return err
		}
		if _, err := p.more(')', false); err != nil {
			return err
		}
		if err := p.expect(')'); err != nil {
			return err
		}
		return b.pad(n)
	}
	e, err := p.elem(depth + 1)
	if err != nil {
		return err
	}
	var shape []int
	more, err := p.more(')', false)
	if err != nil {
		return err
	}
	if more {
		if shape, err = p.tuple(); err != nil {
			return err
		}
		if _, err := p.more(')', false); err != nil {
			return err
		}
	}
	if err := p.expect(')'); err != nil {
		return err
	}
	return b.add(name, e, shape)
}

// void parses the type of padding, such as '|V4', and returns its bytes.
func (p *literal) void() (int, error) {
	if p.next() == '[' {
		return 0, errors.New("record field without a name")
	}
	code, err := p.text()
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(code, "|V")
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("field without a name has type %q, expected padding such as '|V4'", code)
	}
	return int(n), nil
}
