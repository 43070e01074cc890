package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Errors of this package. Every error about a header or an element type wraps one of them.
var (
	// ErrFormat is returned for text that is not a .npy header or not a description of elements.
	ErrFormat = errors.New("invalid .npy header")
	// ErrUnsupported is returned for element types that NumPy knows and this package does not.
	ErrUnsupported = errors.New("unsupported .npy element type")
	// ErrTooLarge is returned for shapes whose bytes overflow an int.
	ErrTooLarge = errors.New("larger than any memory")
)

// Header describes the array of a .npy file, whose elements follow each other without gaps from
// byte DataOffset.
type Header struct {
	Elem       Elem
	Shape      []int // outermost first, in Fortran order too, as in NumPy; nil for a single element
	Fortran    bool  // the first index changes fastest
	BigEndian  bool  // byte order of plain numbers; false for elements of one byte
	DataOffset int   // set by ParseHeader
}

const (
	magic = "\x93NUMPY"
	// prefixSize is the number of bytes that headerSize needs.
	prefixSize = 12
	// maxHeader bounds the dictionary that is read. NumPy itself stops at 10000 characters.
	maxHeader = 64 << 10
	// maxDict is the longest dictionary that NumPy reads without allow_pickle.
	maxDict = 10000
)

// headerSize returns the number of bytes at the start of a .npy file that ParseHeader needs, given
// the first prefixSize of them. Its error wraps ErrFormat.
func headerSize(prefix []byte) (int, error) {
	if len(prefix) < 10 || string(prefix[:6]) != magic {
		return 0, fmt.Errorf("%w: file does not begin with \\x93NUMPY", ErrFormat)
	}
	switch prefix[6] {
	case 1:
		return 10 + int(binary.LittleEndian.Uint16(prefix[8:])), nil
	case 2, 3:
		if len(prefix) < prefixSize {
			return 0, fmt.Errorf("%w: file ends within its first %d bytes", ErrFormat, prefixSize)
		}
		n := binary.LittleEndian.Uint32(prefix[8:])
		if n > maxHeader {
			return 0, fmt.Errorf("%w: header of %d bytes, expected at most %d", ErrFormat, n, maxHeader)
		}
		return prefixSize + int(n), nil
	}
	return 0, fmt.Errorf("%w: version %d.%d, expected 1 to 3", ErrFormat, prefix[6], prefix[7])
}

// ParseHeader parses the header of version 1, 2 or 3 at the start of b. Its error wraps ErrFormat
// or ErrUnsupported.
func ParseHeader(b []byte) (Header, error) {
	size, err := headerSize(b[:min(len(b), prefixSize)])
	if err != nil {
		return Header{}, err
	}
	if size > len(b) {
		return Header{}, fmt.Errorf("%w: file ends within its header of %d bytes", ErrFormat, size)
	}
	start := 10
	if b[6] > 1 {
		start = prefixSize
	}
	p := literal{s: string(b[start:size])}
	h, err := p.header()
	if err == nil {
		_, err = h.Elem.DataSize(h.Shape)
	}
	if err != nil {
		return Header{}, wrapError(err)
	}
	h.DataOffset = size
	return h, nil
}

// Append appends the header, of version 1, to dst. The header's own length is a multiple of align,
// which must be positive: NumPy writes 64. The error is that of DataSize, or says that the element
// type is longer than NumPy reads.
func (h Header) Append(dst []byte, align int) ([]byte, error) {
	if _, err := h.Elem.DataSize(h.Shape); err != nil {
		return nil, err
	}
	descr := h.Elem.Descr()
	if h.BigEndian {
		descr = strings.Replace(descr, "<", ">", 1)
	}
	order := "False"
	if h.Fortran {
		order = "True"
	}
	start := len(dst)
	dst = append(dst, magic+"\x01\x00\x00\x00{'descr': "+descr+", 'fortran_order': "+order+", 'shape': "...)
	dst = append(appendTuple(dst, h.Shape), ", }"...)
	size := (len(dst) - start + align) / align * align // includes the newline
	if size-10 > maxDict {
		return nil, fmt.Errorf("element type needs a header of %d bytes, NumPy reads at most %d", size, maxDict+10)
	}
	for len(dst)-start < size-1 {
		dst = append(dst, ' ')
	}
	dst = append(dst, '\n')
	binary.LittleEndian.PutUint16(dst[start+8:], uint16(size-10))
	return dst, nil
}

// DataSize returns the bytes of an array of elements without gaps, 0 if a dimension is 0. The error
// wraps ErrTooLarge where the other dimensions overflow an int, as in NumPy.
func (e Elem) DataSize(shape []int) (int64, error) {
	if e.Size() == 0 {
		return 0, errors.New("array without an element type")
	}
	if len(shape) > maxDims {
		return 0, fmt.Errorf("array of %d dimensions, expected at most %d", len(shape), maxDims)
	}
	n, empty := int64(e.Size()), false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v: negative dimension", shape)
		case d == 0:
			empty = true
		case n > math.MaxInt/int64(d):
			return 0, fmt.Errorf("shape %v of %d-byte elements: %w", shape, e.Size(), ErrTooLarge)
		default:
			n *= int64(d)
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

// header parses the dictionary of a header.
func (p *literal) header() (Header, error) {
	var h Header
	if err := p.expect('{'); err != nil {
		return h, err
	}
	seen := map[string]bool{}
	for {
		more, err := p.more('}', len(seen) == 0)
		if err != nil {
			return h, err
		}
		if !more {
			break
		}
		key, err := p.text()
		if err != nil {
			return h, err
		}
		if seen[key] {
			return h, p.fail(fmt.Sprintf("duplicate key %q", key))
		}
		seen[key] = true
		if err := p.expect(':'); err != nil {
			return h, err
		}
		switch key {
		case "descr":
			err = p.descr(&h)
		case "fortran_order":
			h.Fortran, err = p.boolean()
		case "shape":
			h.Shape, err = p.tuple()
		default:
			err = p.fail(fmt.Sprintf("unknown key %q", key))
		}
		if err != nil {
			return h, err
		}
	}
	p.i++
	if p.next() != 0 {
		return h, p.fail("text after the dictionary")
	}
	if len(seen) != 3 {
		return h, errors.New("descr, fortran_order or shape is missing")
	}
	return h, nil
}

// descr parses the element type of a header. Only here, and not within records, may it be
// big-endian.
func (p *literal) descr(h *Header) (err error) {
	from := p.i
	if p.next() == '[' {
		h.Elem, err = p.elem(0)
	} else {
		var code string
		if code, err = p.text(); err == nil {
			h.Elem, h.BigEndian, err = numberOf(code)
		}
	}
	if err == nil && p.i-from > maxDescr+1 {
		err = p.fail(fmt.Sprintf("element type of more than %d characters", maxDescr))
	}
	return err
}

// numberOf returns the plain type that NumPy writes as code, such as <f4 or >i2, and its byte
// order. NumPy never writes '=', the machine's own.
func numberOf(code string) (e Elem, bigEndian bool, err error) {
	if len(code) < 2 || code[0] != '>' && code[0] != '=' {
		e, err = plainOf(code)
		return e, false, err
	}
	if e, err = plainOf("<" + code[1:]); err != nil {
		return Elem{}, false, unsupported("%q", code)
	}
	return e, e.Size() > 1 && (code[0] == '>' || nativeBigEndian()), nil
}

func nativeBigEndian() bool { return binary.NativeEndian.Uint16([]byte{0, 1}) == 1 }

// wrapError makes an error of the parser one of ErrUnsupported or ErrFormat.
func wrapError(err error) error {
	if errors.As(err, new(unsupportedError)) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}
