package jobspec

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"leat/codec"
)

type mapParams struct {
	Weights map[string]float64
	Fill    float64
}

func TestParamsWithMaps(t *testing.T) { // gob encodes maps in random order
	params := func(n int) mapParams {
		p := mapParams{map[string]float64{"none": math.NaN()}, math.NaN()}
		for i := range n {
			p.Weights[fmt.Sprint("a long name for weight ", i)] = float64(i)
		}
		return p
	}
	for _, n := range []int{1, 50000} { // 2 MB
		a, err := DescribeParams(codec.Any(codec.Gob[mapParams]()), params(n))
		for range 5 {
			b, berr := DescribeParams(codec.Any(codec.Gob[mapParams]()), params(n))
			if err != nil || berr != nil || !b.Equal(&a) {
				t.Errorf("%d entries: %v, %v: %+v and %+v", n, err, berr, a, b)
			}
		}
		other := params(n)
		other.Weights["a long name for weight 0"] = 8
		if b, err := DescribeParams(codec.Any(codec.Gob[mapParams]()), other); err != nil || b.Equal(&a) {
			t.Errorf("%d entries, one of them another: %v: %+v and %+v", n, err, a, b)
		}
	}
}

func TestValueSum(t *testing.T) {
	type node struct {
		V    any
		Next *node
		f    func()
	}
	type hidden struct{ m map[int][]float32 }
	loop := &node{V: 1}
	loop.Next = loop
	self := []any{make([]float64, 1<<16), nil}
	self[1] = self
	shared := &node{V: 1}
	twice := [2]any{shared, shared}
	nan, zero := math.NaN(), 0.0
	for i, c := range []struct {
		a, b any
		want bool
	}{
		{nil, nil, true}, {nil, 1, false}, {1, 1, true}, {1, 2, false}, {1, int64(1), false}, {"a", "a", true},
		{true, false, false},
		{nan, nan, true}, {nan, 1.0, false}, {zero, zero, true}, {zero, math.Copysign(0, -1), false},
		{complex(nan, 1), complex(nan, 1), true}, {complex(1, 2), complex(1, 3), false},
		{[]int{1}, []int{1}, true}, {[]int{1}, []int{2}, false}, {[]int{1}, []int{1, 2}, false},
		{[]int(nil), []int{}, false}, {[2]float64{nan, 1}, [2]float64{nan, 1}, true},
		{map[string]any{"a": nan}, map[string]any{"a": nan}, true},
		{map[string]any{"a": 1}, map[string]any{"b": 1}, false},
		{map[string]any{"a": 1}, map[string]any{"a": 1.0}, false},
		{map[float64]int{nan: 1}, map[float64]int{nan: 1}, true},
		{map[float64]int{nan: 1}, map[float64]int{nan: 2}, false},
		{map[int]string{1: "b", 2: "a"}, map[int]string{1: "a", 2: "b"}, false},
		{[]string{"ab", "c"}, []string{"a", "bc"}, false}, {[][]int{{1}, {}}, [][]int{{}, {1}}, false},
		{map[int]int(nil), map[int]int{}, false},
		{&node{V: 1, Next: &node{V: nan}}, &node{V: 1, Next: &node{V: nan}}, true},
		{&node{V: 1, Next: &node{V: 2}}, &node{V: 1}, false},
		{&node{f: func() {}}, &node{f: func() {}}, false},
		{hidden{map[int][]float32{1: {2}}}, hidden{map[int][]float32{1: {2}}}, true},
		{hidden{map[int][]float32{1: {2}}}, hidden{map[int][]float32{1: {3}}}, false},
		{time.Unix(5, 6), time.Unix(5, 6), true}, {time.Unix(5, 6), time.Unix(5, 7), false}, {loop, loop, false},
		{self, self, false}, {twice, [2]*node{{V: 1}, {V: 1}}, false}, {twice, [2]any{&node{V: 1}, &node{V: 1}}, true},
		{[][]int{{}, {}}, [][]int{{}, {}}, true}, {make(chan int), make(chan int), false}, {int8(-1), int8(-1), true},
		{slices.Repeat([]float64{1}, 50000), slices.Repeat([]float64{1}, 50001), false},
		{append([]uint8{1}, make([]byte, 50000)...), append([]uint8{2}, make([]byte, 50000)...), false},
	} {
		a, one := valueSum(c.a)
		b, two := valueSum(c.b)
		if got := a == b && one && two; got != c.want {
			t.Errorf("%d: %s of %v, %s of %v", i, a, c.a, b, c.b)
		}
	}
}
