package shm

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"leat/ndarray"
	"leat/npy"
)

// input is what is to be put: elements somewhere in memory, and how the array that comes of them is
// laid out.
type input struct {
	view   view
	mem    []byte // what the view's bytes are counted in
	owner  any    // keeps mem
	order  bool   // the array is laid out in Fortran order
	length int64  // bytes of the array, without gaps
	flat   []byte // the elements themselves where they lie without gaps
}

// sourceOf understands what users put: an *ndarray.Array, an *Array of this package, or a slice of
// any type that has an element type. shape is for slices: by default their length.
func sourceOf(v any, shape []int) (*input, error) {
	s := &input{owner: v}
	switch a := v.(type) {
	case nil:
		return nil, errors.New("nil is no array")
	case *ndarray.Array:
		if a == nil {
			return nil, errors.New("a nil *ndarray.Array is no array")
		}
		if len(shape) > 0 {
			return nil, errors.New("a shape was given for an array that has one")
		}
		s.view = view{npy.ElemOfDType(a.Type), int64(a.Offset), a.Shape, a.Strides}
		s.mem = a.Data
	case *Array:
		if a == nil {
			return nil, errors.New("a nil *shm.Array is no array")
		}
		if len(shape) > 0 {
			return nil, errors.New("a shape was given for an array that has one")
		}
		if a.closed.Load() {
			return nil, fmt.Errorf("%w: an array that is put again must be open", ErrClosed)
		}
		s.view, s.mem = a.view, a.obj.bytes()
	default:
		if err := s.slice(v, shape); err != nil {
			return nil, err
		}
	}
	if s.view.elem.Size() == 0 {
		return nil, errors.New("the array has no element type")
	}
	if err := s.view.within(int64(len(s.mem))); err != nil {
		return nil, err
	}
	n, err := s.view.elem.DataSize(s.view.shape)
	if err != nil {
		return nil, err
	}
	if s.view.empty() {
		return s, nil
	}
	s.length = n
	switch {
	case s.view.contiguousC():
	case s.view.contiguousF():
		s.order = true
	default:
		return s, nil
	}
	s.flat = s.mem[s.view.offset : s.view.offset+n]
	return s, nil
}

func (s *input) slice(v any, shape []int) error {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return fmt.Errorf("a %T can't be shared: give a slice or an *ndarray.Array", v)
	}
	elem, inner, err := npy.ElemOf(r.Type().Elem())
	if err != nil {
		return err
	}
	if len(shape) == 0 {
		shape = []int{r.Len()}
	}
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > r.Len()/d && r.Len() > 0 {
			n = -1
			break
		}
		n *= d
	}
	if n != r.Len() {
		return fmt.Errorf("%d values don't make an array of shape %v", r.Len(), shape)
	}
	shape = append(append([]int(nil), shape...), inner...)
	s.view = contiguousView(elem, 0, shape, false)
	if size := int(r.Type().Elem().Size()); n > 0 && size > 0 {
		s.mem = unsafe.Slice((*byte)(r.UnsafePointer()), n*size)
	}
	return nil
}

// keepAlive says that the memory is used up to here.
func (s *input) keepAlive() { runtime.KeepAlive(s.owner) }

// read fills dst with the bytes of the array, as it will be laid out, from byte off. Both are at
// multiples of the size of an element.
func (s *input) read(dst []byte, off int64) {
	switch {
	case len(dst) == 0:
		return
	case s.flat != nil:
		copy(dst, s.flat[off:])
		return
	}
	gather(dst, s.mem, s.view, off)
}

// gather copies elements of a view in C order, beginning with the one that stands off bytes into
// the result.
func gather(dst, mem []byte, v view, off int64) {
	size := int64(v.elem.Size())
	last := len(v.shape) - 1
	inner, step := int64(v.shape[last]), int64(v.strides[last])
	// Where the first element is.
	index := make([]int64, len(v.shape))
	at := v.offset
	for i, rest := last, off/size; i >= 0; i-- {
		d := int64(v.shape[i])
		index[i] = rest % d
		rest /= d
		at += index[i] * int64(v.strides[i])
	}
	for len(dst) > 0 {
		n := min(inner-index[last], int64(len(dst))/size)
		row(dst[:n*size], mem, at, step, int(size))
		dst = dst[n*size:]
		// To the begin of the next row.
		at -= index[last] * step
		index[last] = 0
		for i := last - 1; i >= 0; i-- {
			index[i]++
			at += int64(v.strides[i])
			if index[i] < int64(v.shape[i]) {
				break
			}
			at -= index[i] * int64(v.strides[i])
			index[i] = 0
		}
	}
}

// row copies elements that are step bytes apart. The sizes that most arrays have are copied as
// numbers.
func row(dst, mem []byte, at, step int64, size int) {
	switch {
	case step == int64(size):
		copy(dst, mem[at:])
	case size == 1:
		for i := range dst {
			dst[i] = mem[at]
			at += step
		}
	case size == 2:
		rowOf[[2]byte](dst, mem, at, step)
	case size == 4:
		rowOf[[4]byte](dst, mem, at, step)
	case size == 8:
		rowOf[[8]byte](dst, mem, at, step)
	case size == 16:
		rowOf[[16]byte](dst, mem, at, step)
	default:
		for len(dst) > 0 {
			copy(dst[:size], mem[at:])
			dst = dst[size:]
			at += step
		}
	}
}

func rowOf[T [2]byte | [4]byte | [8]byte | [16]byte](dst, mem []byte, at, step int64) {
	var z T
	size := int64(len(z))
	out := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)/len(z))
	for i := range out {
		out[i] = T(mem[at : at+size])
		at += step
	}
}
