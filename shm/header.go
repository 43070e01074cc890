package shm

import (
	"errors"
	"fmt"
	"math"

	"leat/ndarray"
)

// maxNPYDict is the longest dictionary that NumPy reads without being told to trust the file.
const maxNPYDict = 10000

// npyHeader returns a whole .npy header, version 1, whose length is a multiple of align: 4096 for
// objects that are mapped by themselves, 64 within an arena. The error says what about the array
// can't be written.
func npyHeader(e Elem, shape []int, fortran bool, align int) ([]byte, error) {
	if align < 1 {
		panic(fmt.Sprintf("shm: header aligned to %d", align))
	}
	if _, err := dataSize(e, shape); err != nil {
		return nil, err
	}
	b := make([]byte, 10, 256)
	b = append(b, "{'descr': "...)
	b = append(b, e.Descr()...)
	b = append(b, ", 'fortran_order': "...)
	if fortran {
		b = append(b, "True"...)
	} else {
		b = append(b, "False"...)
	}
	b = append(b, ", 'shape': "...)
	b = appendTuple(b, shape)
	b = append(b, ", }"...)
	total := (len(b) + 1 + align - 1) / align * align
	if total-10 > maxNPYDict {
		return nil, fmt.Errorf("the element type takes a header of %d bytes, NumPy reads at most %d; give the fields shorter names, or fewer", total, maxNPYDict+10)
	}
	for len(b) < total-1 {
		b = append(b, ' ')
	}
	b = append(b, '\n')
	copy(b, "\x93NUMPY\x01\x00")
	b[8], b[9] = byte(total-10), byte((total-10)>>8)
	return b, nil
}

// dataSize returns the bytes of an array without gaps. As in NumPy, arrays that are empty count
// without their dimensions of 0.
func dataSize(e Elem, shape []int) (int64, error) {
	if e.Size() == 0 {
		return 0, fmt.Errorf("%w: there is no type", ErrElem)
	}
	if len(shape) > maxDims {
		return 0, fmt.Errorf("an array of %d dimensions; at most %d are possible", len(shape), maxDims)
	}
	n, empty := int64(e.Size()), false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v: a dimension is negative", shape)
		case d == 0:
			empty = true
		case n > math.MaxInt/int64(d):
			return 0, fmt.Errorf("shape %v of %d-byte elements is %w", shape, e.Size(), errHuge)
		default:
			n *= int64(d)
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

// errHuge tells of bytes that no number counts. Who makes an array says ErrNoRoom, who reads one
// that it is none.
var errHuge = errors.New("larger than any memory")

// parseNPYHeader reads the header, versions 1 to 3, that b begins with; the elements begin at byte
// offset, without gaps. Unlike [ndarray.ParseNPYHeader] it knows truth values and records, but no
// big-endian numbers. The error wraps ndarray.ErrNPYFormat, or ndarray.ErrNPYUnsupported where just
// the element type is not shared.
func parseNPYHeader(b []byte) (e Elem, shape []int, fortran bool, offset int, err error) {
	offset, err = ndarray.NPYHeaderSize(b[:min(len(b), ndarray.NPYPrefix)])
	if err != nil {
		return Elem{}, nil, false, 0, err
	}
	if offset > len(b) {
		return Elem{}, nil, false, 0, fmt.Errorf("%w: it ends within its header of %d bytes", ndarray.ErrNPYFormat,
			offset)
	}
	start := 10
	if b[6] > 1 {
		start = ndarray.NPYPrefix
	}
	p := literal{s: string(b[start:offset])}
	e, shape, fortran, err = p.dict()
	if err == nil {
		_, err = dataSize(e, shape)
	}
	if err != nil {
		kind := ndarray.ErrNPYFormat
		if errors.As(err, new(unsupportedError)) {
			kind = ndarray.ErrNPYUnsupported
		}
		return Elem{}, nil, false, 0, fmt.Errorf("%w: %w", kind, err)
	}
	return e, shape, fortran, offset, nil
}

// dict reads the dictionary of a header.
func (p *literal) dict() (e Elem, shape []int, fortran bool, err error) {
	bad := func(err error) (Elem, []int, bool, error) { return Elem{}, nil, false, err }
	if err := p.expect('{'); err != nil {
		return bad(err)
	}
	seen := map[string]bool{}
	for {
		more, err := p.more('}', len(seen) == 0)
		if err != nil {
			return bad(err)
		}
		if !more {
			break
		}
		key, err := p.text()
		if err != nil {
			return bad(err)
		}
		if seen[key] {
			return bad(p.fail(fmt.Sprintf("key %q twice", key)))
		}
		seen[key] = true
		if err := p.expect(':'); err != nil {
			return bad(err)
		}
		switch key {
		case "descr":
			from := p.i
			if e, err = p.elem(0); err == nil && p.i-from > maxDescr+1 {
				err = p.fail(fmt.Sprintf("an element type of more than %d characters", maxDescr))
			}
		case "fortran_order":
			fortran, err = p.boolean()
		case "shape":
			shape, err = p.tuple()
		default:
			err = p.fail(fmt.Sprintf("unknown key %q", key))
		}
		if err != nil {
			return bad(err)
		}
	}
	p.i++
	if p.next() != 0 {
		return bad(p.fail("more than the dictionary"))
	}
	if len(seen) != 3 {
		return bad(errors.New("one of descr, fortran_order, shape is missing"))
	}
	return e, shape, fortran, nil
}
