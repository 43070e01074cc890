//go:build unix

package shm

import (
	"errors"
	"math"
	"testing"

	"leat/ndarray"
)

func TestArraysLargerThanMemory(t *testing.T) {
	isolate(t)
	for _, o := range []Options{{}, {Place: Memfd}, {Place: Named}, {Place: Temp}} {
		place := o.Place
		s := must(Open(&o))(t)
		for _, n := range []int{math.MaxInt64, math.MaxInt64 - pageSize, math.MaxInt64 - 2*pageSize, 1 << 60, 1 << 47} {
			if a, err := s.New(ndarray.Uint8, n); !errors.Is(err, ErrNoSpace) {
				t.Errorf("%v, New of %d: %v, %v", place, n, a, err)
			}
			// A view of one element, as a forged handle may have it.
			v := &ndarray.Array{Type: ndarray.Uint8, Shape: []int{n}, Strides: []int{0}, Data: []byte{7}}
			if a, err := s.Put(v); !errors.Is(err, ErrNoSpace) {
				t.Errorf("%v, Put of %d: %v, %v", place, n, a, err)
			}
			if h, err := s.Pack(v); !errors.Is(err, ErrNoSpace) {
				t.Errorf("%v, Pack of %d: %.80s, %v", place, n, h, err)
			}
		}
		// Beyond the numbers.
		if a, err := NewOf[float64](must(s.Scope())(t), math.MaxInt64, 2); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v, NewOf: %v, %v", place, a, err)
		}
		v := &ndarray.Array{Type: ndarray.Float64, Shape: []int{math.MaxInt64}, Strides: []int{0},
			Data: make([]byte, 8)}
		if a, err := s.Put(v); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v, Put of floats: %v, %v", place, a, err)
		}
		check(t, s.Close())
	}
	s := must(Open(&Options{MaxInlineBytes: -1}))(t) // all goes into the handle
	defer s.Close()
	v := &ndarray.Array{Type: ndarray.Uint8, Shape: []int{math.MaxInt64}, Strides: []int{0}, Data: []byte{7}}
	if h, err := s.Pack(v); !errors.Is(err, ErrNoSpace) {
		t.Errorf("inline: %.80s, %v", h, err)
	}
}

func TestViewLargerThanMemoryIsNotCopied(t *testing.T) {
	isolate(t)
	for _, place := range []Place{Memfd, Named} {
		s, other := must(Open(&Options{Place: place}))(t), must(Open(nil))(t)
		defer s.Close()
		defer other.Close()
		a := must(writable(s, []byte{7}))(t)
		h := must(parseHandle(must(a.Handle())(t)))(t)
		h.view.shape, h.view.strides = []int{math.MaxInt64}, []int{0}
		for _, mode := range []Mode{ReadOnly, ReadWrite, CopyOnWrite} {
			v := must(other.Attach(h.text(), mode))(t)
			b, err := other.Put(v)
			if mode == CopyOnWrite { // private: it would have to be copied
				if !errors.Is(err, ErrNoSpace) {
					t.Errorf("%v, Put: %v, %v", place, b, err)
				}
				continue
			}
			if check(t, err); b.obj != v.obj {
				t.Errorf("%v, %v, Put made another array", place, mode)
			}
			if _, err := Slice[byte](v); err == nil {
				t.Errorf("%v, %v, a slice of it", place, mode)
			}
		}
	}
}
