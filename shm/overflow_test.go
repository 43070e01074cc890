//go:build unix

package shm

import (
	"errors"
	"math"
	"testing"

	"leat/ndarray"
)

func TestArraysBeyondAllMemoryAreErrorsInEveryPlace(t *testing.T) {
	isolate(t)
	for _, place := range []Place{Auto, Memfd, Named, Temp} {
		s := must(Open(&Options{Place: place}))(t)
		for _, n := range []int{math.MaxInt64, math.MaxInt64 - pageSize, math.MaxInt64 - 2*pageSize, 1 << 60, 1 << 47} {
			if a, err := s.New(ndarray.Uint8, n); !errors.Is(err, ErrNoRoom) {
				t.Errorf("%v, New of %d: %v, %v", place, n, a, err)
			}
			// A view of one element, as a forged handle may have it.
			v := &ndarray.Array{Type: ndarray.Uint8, Shape: []int{n}, Strides: []int{0}, Data: []byte{7}}
			if a, err := s.PutWritable(v); !errors.Is(err, ErrNoRoom) {
				t.Errorf("%v, Put of %d: %v, %v", place, n, a, err)
			}
			if h, err := s.Pack(v); !errors.Is(err, ErrNoRoom) {
				t.Errorf("%v, Pack of %d: %.80s, %v", place, n, h, err)
			}
		}
		check(t, s.Close())
	}
	s := must(Open(&Options{MaxBytes: -1}))(t) // all goes into the handle
	defer s.Close()
	v := &ndarray.Array{Type: ndarray.Uint8, Shape: []int{math.MaxInt64}, Strides: []int{0}, Data: []byte{7}}
	if h, err := s.Pack(v); !errors.Is(err, ErrNoRoom) {
		t.Errorf("inline: %.80s, %v", h, err)
	}
}
