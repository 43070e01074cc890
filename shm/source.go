package shm

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"leat/internal/npy"
	"leat/ndarray"
)

// input is the argument of Put: elements in memory, and the layout of their copy.
type input struct {
	view   view
	mem    []byte // in which the view counts its bytes
	owner  any    // keeps mem alive
	order  bool   // the copy is in Fortran order
	length int64  // bytes of the copy
	flat   []byte // the elements, if they have no gaps
}

// sourceOf returns the input for an *ndarray.Array, an *Array, or a slice whose elements can be
// shared. shape is for slices, by default their length.
func sourceOf(v any, shape []int) (*input, error) {
	s := &input{owner: v}
	switch a := v.(type) {
	case nil:
		return nil, errors.New("nil array")
	case *ndarray.Array:
		if a == nil {
			return nil, errors.New("nil *ndarray.Array")
		}
		if len(shape) > 0 {
			return nil, errors.New("shape given for an array, expected none")
		}
		s.view = view{npy.ElemOfDType(a.Type), int64(a.Offset), a.Shape, a.Strides}
		s.mem = a.Data
	case *Array:
		if a == nil {
			return nil, errors.New("nil *shm.Array")
		}
		if len(shape) > 0 {
			return nil, errors.New("shape given for an array, expected none")
		}
		if a.closed.Load() {
			return nil, errArrayClosed
		}
		s.view, s.mem = a.view, a.obj.bytes()
	default:
		if err := s.slice(v, shape); err != nil {
			return nil, err
		}
	}
	if s.view.elem.Size() == 0 {
		return nil, errors.New("array without an element type")
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
		return fmt.Errorf("sharing %T, expected a slice, *ndarray.Array or *shm.Array", v)
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
		return fmt.Errorf("%d values for shape %v", r.Len(), shape)
	}
	shape = append(append([]int(nil), shape...), inner...)
	s.view = contiguousView(elem, 0, shape, false)
	if size := int(r.Type().Elem().Size()); n > 0 && size > 0 {
		s.mem = unsafe.Slice((*byte)(r.UnsafePointer()), n*size)
	}
	return nil
}

// keepAlive keeps the memory reachable until here.
func (s *input) keepAlive() { runtime.KeepAlive(s.owner) }

// read fills dst with the bytes of the copy from byte off. len(dst) and off are multiples of the
// element size.
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

// gather copies elements of a view in C order, starting with the one at byte off of the result.
func gather(dst, mem []byte, v view, off int64) {
	size := int64(v.elem.Size())
	last := len(v.shape) - 1
	inner, step := int64(v.shape[last]), int64(v.strides[last])
	// The position of the first element.
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
		// To the start of the next row.
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

// row copies elements that are step bytes apart. The usual sizes are copied as numbers.
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
