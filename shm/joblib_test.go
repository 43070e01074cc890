//go:build linux

package shm

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/ndarray"
)

// What joblib's memory mapping does wrong, each by its name. A full /dev/shm is in limits_test.go,
// what killed processes leave in kill_test.go, directories that others can read in hostile_test.go.

func sums(arrays ...*ndarray.Array) (list []string) {
	for _, a := range arrays {
		list = append(list, fmt.Sprintf("%x", digestOf(a)))
	}
	return list
}

// image returns an array of 400 rows and 300 columns in the place that s has for it.
func image(t *testing.T, s *Pool) (*Array, *ndarray.Array) {
	t.Helper()
	data := make([]float32, 400*300)
	for i := range data {
		data[i] = float32(i)
	}
	a := must(s.Put(data, 400, 300))(t)
	return a, a.View()
}

func TestTransposedArray(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		_, v := image(t, s)
		transposed := &ndarray.Array{Type: v.Type, Shape: []int{300, 400}, Strides: []int{v.Strides[1], v.Strides[0]},
			Offset: v.Offset, Data: v.Data}
		h := must(s.Pack(transposed))(t)
		if diff := cmp.Diff(sums(transposed), elsewhere(t, ReadOnly, h)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNegativeStrides(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		_, v := image(t, s)
		flipped := &ndarray.Array{Type: v.Type, Shape: v.Shape, Strides: []int{-v.Strides[0], -v.Strides[1]},
			Offset: len(v.Data) - 4, Data: v.Data}
		column := &ndarray.Array{Type: v.Type, Shape: []int{200}, Strides: []int{-2 * v.Strides[0]},
			Offset: 399*v.Strides[0] + 40, Data: v.Data}
		zero := &ndarray.Array{Type: v.Type, Shape: []int{5, 300}, Strides: []int{0, 4}, Offset: 1200, Data: v.Data}
		var handles []Handle
		for _, a := range []*ndarray.Array{flipped, column, zero} {
			handles = append(handles, must(s.Pack(a))(t))
		}
		if diff := cmp.Diff(sums(flipped, column, zero), elsewhere(t, ReadOnly, handles...)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestArrayChangedInPlace(t *testing.T) {
	for _, o := range []*Options{{}, {Place: Named}} {
		isolate(t)
		s := newSharer(t, o)
		src := ndarray.FromSlice(numbers(2<<20, 1), 2<<20)
		for i := range 3 {
			src.Data[77] = byte(i)
			if diff := cmp.Diff(sums(src), elsewhere(t, ReadOnly, must(s.Pack(src))(t))); diff != "" {
				t.Errorf("change %d: %s", i, diff)
			}
		}
	}
}

func TestScopeFreesArrays(t *testing.T) {
	isolate(t)
	s := newSharer(t, &Options{RecycleBytes: -1})
	before := memfds(t)
	for range 20 {
		call := must(s.Scope())(t)
		must(call.Pack(numbers(2<<20, 1)))(t)
		check(t, call.Close())
	}
	if n := memfds(t) - before; n != 0 {
		t.Errorf("%d arrays are left while the pool is open", n)
	}
}

func TestSeparateCallsShareOneCopy(t *testing.T) {
	s := newSharer(t, nil)
	a := must(s.Put(numbers(2<<20, 1)))(t)
	first := must(a.Handle())(t)
	for range 3 {
		call := must(s.Scope())(t)
		if h := must(call.Pack(a))(t); h != first {
			t.Error("the array was copied again")
		}
		check(t, call.Close())
	}
	check(t, must(newSharer(t, nil).Attach(first, ReadOnly))(t).Close())
}

func TestModeDoesNotDependOnSize(t *testing.T) {
	s, other := newSharer(t, nil), newSharer(t, nil)
	for _, mode := range []Mode{ReadOnly, ReadWrite, CopyOnWrite} {
		var outcomes []string
		for _, n := range []int{10, 2 << 20} {
			a, err := other.Attach(must(s.Pack(numbers(n, 1)))(t), mode)
			if err != nil {
				outcomes = append(outcomes, err.Error())
				continue
			}
			outcomes = append(outcomes, string(a.Mode()))
		}
		if outcomes[0] != outcomes[1] {
			t.Errorf("%s: %q", mode, outcomes)
		}
	}
}

func TestEmptyAndDimensionlessArraysArrive(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		list := []*ndarray.Array{
			{Type: ndarray.Float32, Data: numbers(4, 1)},
			{Type: ndarray.Int16, Shape: []int{0}, Strides: []int{2}},
			{Type: ndarray.Int16, Shape: []int{3, 0, 7}, Strides: []int{0, 14, 2}},
			{Type: ndarray.Complex128, Shape: []int{1, 1}, Strides: []int{-99, 7}, Data: numbers(16, 1)},
		}
		var handles []Handle
		for _, v := range list {
			a := must(s.Put(v))(t)
			if diff := cmp.Diff(v.Shape, a.Shape()); diff != "" {
				t.Error(diff)
			}
			handles = append(handles, must(a.Handle())(t), must(s.Pack(v))(t))
		}
		want := sums(list...)
		var twice []string
		for _, w := range want {
			twice = append(twice, w, w)
		}
		if diff := cmp.Diff(twice, elsewhere(t, ReadOnly, handles...)); diff != "" {
			t.Error(diff)
		}
	})
}
