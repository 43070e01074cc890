package shm

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"leat/internal/npy"
)

// view locates the elements of an array in the bytes of an object.
type view struct {
	elem    npy.Elem
	offset  int64 // byte of the element with all indices 0
	shape   []int // nil for a single element without dimensions
	strides []int // bytes from one element to the next; may be negative or 0
}

// contiguousView returns the view of an array without gaps. The strides of an empty array are
// arbitrary; versions of NumPy differ.
func contiguousView(e npy.Elem, offset int64, shape []int, fortran bool) view {
	v := view{elem: e, offset: offset, shape: shape}
	if len(shape) == 0 {
		return view{elem: e, offset: offset}
	}
	v.strides = make([]int, len(shape))
	step := e.Size()
	for n := range shape {
		i := n
		if !fortran {
			i = len(shape) - 1 - n
		}
		v.strides[i] = step
		step *= shape[i]
	}
	return v
}

// check returns an error for a view that is wrong wherever its bytes are.
func (v view) check() error {
	if len(v.strides) != len(v.shape) {
		return fmt.Errorf("view of %d dimensions with %d strides", len(v.shape), len(v.strides))
	}
	_, err := v.elem.DataSize(v.shape)
	return err
}

// empty reports whether the view has no elements.
func (v view) empty() bool {
	for _, d := range v.shape {
		if d == 0 {
			return true
		}
	}
	return false
}

// bounds returns the lowest byte that an element of the view covers and the one past the highest,
// counted like offset; both are offset for an empty view. lo may be negative: the caller checks
// that the bytes exist. The error is that of check, or an overflow.
func (v view) bounds() (lo, hi int64, err error) {
	if err := v.check(); err != nil {
		return 0, 0, err
	}
	lo, hi = v.offset, v.offset
	if v.empty() {
		return lo, hi, nil
	}
	for i, d := range v.shape {
		span, ok := mulInt64(int64(d-1), int64(v.strides[i]))
		if ok && span < 0 {
			lo, ok = addInt64(lo, span)
		} else if ok {
			hi, ok = addInt64(hi, span)
		}
		if !ok {
			return 0, 0, errBounds
		}
	}
	hi, ok := addInt64(hi, int64(v.elem.Size()))
	if !ok {
		return 0, 0, errBounds
	}
	return lo, hi, nil
}

var errBounds = errors.New("view with strides beyond any memory")

// within returns an error unless the view lies in the bytes from 0 to before size.
func (v view) within(size int64) error {
	lo, hi, err := v.bounds()
	if err != nil {
		return err
	}
	if lo < 0 || hi > size {
		return fmt.Errorf("view of bytes %d to %d, object has %d", lo, hi, size)
	}
	return nil
}

// contiguousC reports whether the elements have no gaps, with the last index changing fastest. As
// in NumPy, that is true of empty arrays, and dimensions of 1 don't matter.
func (v view) contiguousC() bool {
	if v.empty() {
		return true
	}
	step := v.elem.Size()
	for i := len(v.shape) - 1; i >= 0; i-- {
		if v.shape[i] != 1 && v.strides[i] != step {
			return false
		}
		step *= v.shape[i]
	}
	return true
}

// contiguousF is contiguousC with the first index changing fastest.
func (v view) contiguousF() bool {
	if v.empty() {
		return true
	}
	step := v.elem.Size()
	for i, d := range v.shape {
		if d != 1 && v.strides[i] != step {
			return false
		}
		step *= d
	}
	return true
}

// field returns the view of one field of all records; the dimensions of a field that is an array
// come last. ok is false if there is no such field.
func (v view) field(name string) (f view, ok bool) {
	fields := v.elem.Fields()
	i := slices.IndexFunc(fields, func(f npy.Field) bool { return f.Name == name })
	if i < 0 {
		return view{}, false
	}
	inner := contiguousView(fields[i].Elem, 0, fields[i].Shape, false)
	f = view{elem: inner.elem, offset: v.offset + int64(fields[i].Offset)}
	f.shape = append(append(f.shape, v.shape...), inner.shape...)
	f.strides = append(append(f.strides, v.strides...), inner.strides...)
	return f, true
}

func addInt64(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}

func mulInt64(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	c := a * b
	return c, c/b == a && !(b == -1 && a == math.MinInt64)
}
