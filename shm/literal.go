package shm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseElem reads what [Elem.Descr] writes: the element type of a .npy header as a Python literal,
// with its quotes or brackets. Blanks, double quotes and commas at the end of a list are understood
// as Python does. Only little-endian types are. The error wraps ErrElem.
func ParseElem(descr string) (Elem, error) {
	if len(descr) > maxDescr {
		return Elem{}, fmt.Errorf("%w: its description has %d characters, more than %d", ErrElem, len(descr), maxDescr)
	}
	p := literal{s: descr}
	e, err := p.elem(0)
	if err == nil && p.next() != 0 {
		err = p.fail("more than one description")
	}
	if err != nil {
		return Elem{}, fmt.Errorf("%w: %w", ErrElem, err)
	}
	return e, nil
}

// literal reads the few Python literals that NumPy writes into headers.
type literal struct {
	s string
	i int
}

func (p *literal) fail(what string) error {
	return fmt.Errorf("%s at character %d", what, p.i)
}

// next passes over blanks and returns the character there, 0 at the end. A NUL in the text is an
// error to all who ask.
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
		return p.fail(fmt.Sprintf("no %q", c))
	}
	p.i++
	return nil
}

// more reads the comma between two parts, or finds the end of the list, which it leaves there. It
// is called before each part; first says that none was read yet.
func (p *literal) more(end byte, first bool) (bool, error) {
	if p.next() == end {
		return false, nil
	}
	if !first {
		if err := p.expect(','); err != nil {
			return false, p.fail(fmt.Sprintf("neither ',' nor %q", end))
		}
	}
	return p.next() != end, nil
}

func (p *literal) text() (string, error) {
	quote := p.next()
	if quote != '\'' && quote != '"' {
		return "", p.fail("no text")
	}
	rest := p.s[p.i+1:]
	n := strings.IndexByte(rest, quote)
	if n < 0 {
		return "", p.fail("a text without end")
	}
	if strings.IndexByte(rest[:n], '\\') >= 0 {
		return "", p.fail("a text with a backslash")
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
	return false, p.fail("neither True nor False")
}

// tuple reads a tuple of numbers. As in Python (3) is none.
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
			return nil, p.fail("no dimension")
		}
		if p.i < len(p.s) && p.s[p.i] == 'L' { // as Python 2 wrote them
			p.i++
		}
		if list = append(list, n); len(list) > maxDims {
			return nil, p.fail(fmt.Sprintf("more than %d dimensions", maxDims))
		}
		if len(list) == 1 && p.next() == ')' {
			return nil, p.fail("a number in brackets, which is no tuple,")
		}
	}
	p.i++
	return list, nil
}

// elem reads a text such as '<f4' or a list of fields.
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

// field reads a tuple of name, type and perhaps a shape.
func (p *literal) field(b *recordBuilder, depth int) error {
	if err := p.expect('('); err != nil {
		return err
	}
	if p.next() == '(' {
		return unsupportedError("a field has a title besides its name; take it away with numpy.lib.recfunctions.rename_fields or a new dtype")
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

// void reads the type of padding, such as '|V4', and returns its bytes.
func (p *literal) void() (int, error) {
	if p.next() == '[' {
		return 0, errors.New("a record without a name")
	}
	code, err := p.text()
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(code, "|V")
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("a field without a name has type %q; only padding such as '|V4' has none", code)
	}
	return int(n), nil
}
