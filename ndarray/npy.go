package ndarray

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// NPYHeader describes the array of a .npy file, whose elements follow each other from byte
// DataOffset on.
type NPYHeader struct {
	Type       DType
	Shape      []int // outermost first, in Fortran order too, as in NumPy
	Fortran    bool  // the first index changes fastest
	BigEndian  bool  // byte order of the file; false for types of one byte
	DataOffset int
}

// Errors that the .npy functions wrap.
var (
	ErrNPYFormat      = errors.New("ndarray: not a .npy header")
	ErrNPYUnsupported = errors.New("ndarray: .npy element type not supported")
)

const (
	npyMagic = "\x93NUMPY"
	// NPYPrefix is the number of bytes that NPYHeaderSize needs.
	NPYPrefix = 12
	// maxNPYHeader exceeds the header of any plain array: NumPy itself stops at 10000 characters.
	maxNPYHeader = 64 << 10
	npyAlign     = 64 // elements begin at a multiple of this, so that they can be mapped
)

// NPYHeaderSize returns the number of bytes at the start of a .npy file that ParseNPYHeader needs,
// given the first NPYPrefix of them. Its error wraps ErrNPYFormat.
func NPYHeaderSize(prefix []byte) (int, error) {
	if len(prefix) < 10 || string(prefix[:6]) != npyMagic {
		return 0, fmt.Errorf("%w: file does not begin with \\x93NUMPY", ErrNPYFormat)
	}
	switch prefix[6] {
	case 1:
		return 10 + int(binary.LittleEndian.Uint16(prefix[8:])), nil
	case 2, 3:
		if len(prefix) < NPYPrefix {
			return 0, fmt.Errorf("%w: file ends within its first %d bytes", ErrNPYFormat, NPYPrefix)
		}
		n := binary.LittleEndian.Uint32(prefix[8:])
		if n > maxNPYHeader {
			return 0, fmt.Errorf("%w: header of %d bytes is too long", ErrNPYFormat, n)
		}
		return NPYPrefix + int(n), nil
	}
	return 0, fmt.Errorf("%w: version %d.%d, want 1 to 3", ErrNPYFormat, prefix[6], prefix[7])
}

// ParseNPYHeader parses the header of version 1, 2 or 3 at the start of b. Its error wraps
// ErrNPYFormat, or ErrNPYUnsupported when the elements are not plain numbers.
func ParseNPYHeader(b []byte) (NPYHeader, error) {
	var h NPYHeader
	size, err := NPYHeaderSize(b[:min(len(b), NPYPrefix)])
	if err != nil {
		return h, err
	}
	if size > len(b) {
		return h, fmt.Errorf("%w: file ends within its header of %d bytes", ErrNPYFormat, size)
	}
	start := 10
	if b[6] > 1 {
		start = NPYPrefix
	}
	h.DataOffset = size
	p := npyParser{s: string(b[start:size])}
	if err := p.header(&h); err != nil {
		return NPYHeader{}, err
	}
	if _, ok := ByteSize(h.Type, h.Shape...); !ok {
		return NPYHeader{}, fmt.Errorf("%w: shape %v is too large", ErrNPYFormat, h.Shape)
	}
	return h, nil
}

// AppendNPYHeader appends the version 1 header of a little-endian array in C order to dst. It
// panics when the type is unknown or the shape has more than 64 dimensions, NumPy's limit.
func AppendNPYHeader(dst []byte, t DType, shape ...int) []byte {
	if !t.Valid() || len(shape) > 64 {
		panic(fmt.Sprintf("ndarray: .npy header of type %v and shape %v", t, shape))
	}
	order := "<"
	if t.Size() == 1 {
		order = "|"
	}
	var dims strings.Builder
	for i, d := range shape {
		if i > 0 {
			dims.WriteByte(' ')
		}
		dims.WriteString(strconv.Itoa(d))
		if i < len(shape)-1 || len(shape) == 1 {
			dims.WriteByte(',')
		}
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, dtypes[t].npy,
		dims.String())
	pad := npyAlign - (10+len(text)+1)%npyAlign
	n := len(text) + pad%npyAlign + 1
	dst = append(dst, npyMagic...)
	dst = append(dst, 1, 0, byte(n), byte(n>>8))
	dst = append(dst, text...)
	for range pad % npyAlign {
		dst = append(dst, ' ')
	}
	return append(dst, '\n')
}

// npyParser parses the Python dictionary of a header: the strings, booleans and tuples of integers
// that NumPy writes there.
type npyParser struct {
	s string
	i int
}

func (p *npyParser) fail(what string) error {
	return fmt.Errorf("%w: %s at character %d of the dictionary", ErrNPYFormat, what, p.i)
}

// next skips whitespace and returns the next character, 0 at the end.
func (p *npyParser) next() byte {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *npyParser) expect(c byte) error {
	if p.next() != c {
		return p.fail(fmt.Sprintf("want %q", c))
	}
	p.i++
	return nil
}

func (p *npyParser) header(h *NPYHeader) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for p.next() != '}' {
		key, err := p.text()
		if err != nil {
			return err
		}
		if seen[key] {
			return p.fail(fmt.Sprintf("duplicate key %q", key))
		}
		seen[key] = true
		if err := p.expect(':'); err != nil {
			return err
		}
		switch key {
		case "descr":
			err = p.descr(h)
		case "fortran_order":
			h.Fortran, err = p.boolean()
		case "shape":
			h.Shape, err = p.shape()
		default:
			err = p.fail(fmt.Sprintf("unknown key %q", key))
		}
		if err != nil {
			return err
		}
		if p.next() == ',' {
			p.i++
		} else if p.next() != '}' {
			return p.fail("want ',' or '}'")
		}
	}
	p.i++
	if p.next() != 0 {
		return p.fail("text after the dictionary")
	}
	if len(seen) != 3 {
		return p.fail("descr, fortran_order or shape is missing")
	}
	return nil
}

func (p *npyParser) text() (string, error) {
	quote := p.next()
	if quote != '\'' && quote != '"' {
		return "", p.fail("want a string")
	}
	rest := p.s[p.i+1:]
	n := strings.IndexByte(rest, quote)
	if n < 0 || strings.IndexByte(rest[:n], '\\') >= 0 {
		return "", p.fail("unterminated string")
	}
	p.i += n + 2
	return rest[:n], nil
}

func (p *npyParser) boolean() (bool, error) {
	p.next()
	for _, v := range []string{"True", "False"} {
		if strings.HasPrefix(p.s[p.i:], v) {
			p.i += len(v)
			return v == "True", nil
		}
	}
	return false, p.fail("want True or False")
}

func (p *npyParser) shape() ([]int, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	shape := []int{}
	for p.next() != ')' {
		from := p.i
		for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
			p.i++
		}
		n, err := strconv.Atoi(p.s[from:p.i])
		if err != nil {
			return nil, p.fail("want a dimension")
		}
		if p.i < len(p.s) && p.s[p.i] == 'L' { // written by Python 2
			p.i++
		}
		if shape = append(shape, n); len(shape) > 64 {
			return nil, p.fail("more than 64 dimensions")
		}
		if p.next() == ',' {
			p.i++
		} else if p.next() != ')' {
			return nil, p.fail("want ',' or ')'")
		}
	}
	p.i++
	return shape, nil
}

func (p *npyParser) descr(h *NPYHeader) error {
	if p.next() == '[' {
		return fmt.Errorf("%w: elements are records: save each field as an array", ErrNPYUnsupported)
	}
	d, err := p.text()
	if err != nil {
		return err
	}
	if len(d) < 2 || strings.IndexByte("<>|=", d[0]) < 0 {
		return p.fail(fmt.Sprintf("element type %q", d))
	}
	for t := Uint8; t < numTypes; t++ {
		if dtypes[t].npy != d[1:] {
			continue
		}
		if d[0] == '|' && t.Size() > 1 {
			return p.fail(fmt.Sprintf("element type %q without byte order", d))
		}
		// '=' is the machine's byte order, which NumPy never writes.
		h.Type, h.BigEndian = t, t.Size() > 1 &&
			(d[0] == '>' || d[0] == '=' && binary.NativeEndian.Uint16([]byte{0, 1}) == 1)
		return nil
	}
	if d[1] == 'O' {
		return fmt.Errorf("%w: elements are Python objects", ErrNPYUnsupported)
	}
	return fmt.Errorf("%w: element type %q: save numbers, as with a.astype('u1')", ErrNPYUnsupported, d)
}
