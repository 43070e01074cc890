package shm

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"leat/internal/npy"
	"leat/internal/pytest"
	"leat/ndarray"
)

// descrs are element types of 1 to 28 bytes.
var descrs = []string{"'|b1'", "'|u1'", "'<i2'", "'<f4'", "'<f8'", "'<c16'", "[('a', '<f4'), ('', '|V3')]",
	"[('a', '<f4'), ('b', [('c', '|b1'), ('', '|V3')], (2, 2)), ('', '|V8')]"}

// views draws views that make sense, wherever they lie.
func views(maxDim int) *rapid.Generator[view] {
	return rapid.Custom(func(t *rapid.T) view {
		elem, err := npy.ParseElem(rapid.SampledFrom(descrs).Draw(t, "element"))
		if err != nil {
			t.Fatal(err)
		}
		v := view{elem: elem, offset: rapid.Int64Range(-100, 1000).Draw(t, "offset")}
		if rapid.Bool().Draw(t, "contiguous") {
			shape := rapid.SliceOfN(rapid.IntRange(0, maxDim), 0, 4).Draw(t, "shape")
			return contiguousView(v.elem, v.offset, shape, rapid.Bool().Draw(t, "fortran"))
		}
		for range rapid.IntRange(0, 4).Draw(t, "dimensions") {
			v.shape = append(v.shape, rapid.IntRange(0, maxDim).Draw(t, "dimension"))
			v.strides = append(v.strides,
				rapid.OneOf(rapid.IntRange(-300, 300), rapid.Just(v.elem.Size())).Draw(t, "stride"))
		}
		return v
	})
}

// each calls f with the byte of every element, the last index changing fastest.
func (v view) each(f func(at int64)) {
	if len(v.shape) == 0 {
		f(v.offset)
		return
	}
	for i := range v.shape[0] {
		view{v.elem, v.offset + int64(i*v.strides[0]), v.shape[1:], v.strides[1:]}.each(f)
	}
}

func TestBoundsAreThoseOfAllElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := views(4).Draw(t, "view")
		lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
		v.each(func(at int64) { lo, hi = min(lo, at), max(hi, at+int64(v.elem.Size())) })
		if hi < lo {
			lo, hi = v.offset, v.offset
		}
		gotLo, gotHi, err := v.bounds()
		if err != nil || gotLo != lo || gotHi != hi {
			t.Fatalf("%d to %d, %v; the elements have %d to %d", gotLo, gotHi, err, lo, hi)
		}
		if err := v.within(hi); (err == nil) != (lo >= 0) {
			t.Fatalf("within %d from %d: %v", hi, lo, err)
		}
		if v.within(hi-1) == nil {
			t.Fatalf("%d to %d lies within %d", lo, hi, hi-1)
		}
	})
}

func TestContiguousViews(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := views(3).Draw(t, "view")
		inOrder := func(v view) bool {
			next, ok := v.offset, true
			v.each(func(at int64) {
				ok = ok && at == next
				next += int64(v.elem.Size())
			})
			return ok
		}
		if got := v.contiguousC(); got != inOrder(v) {
			t.Fatalf("contiguousC is %v", got)
		}
		f := view{elem: v.elem, offset: v.offset}
		for i := len(v.shape) - 1; i >= 0; i-- {
			f.shape, f.strides = append(f.shape, v.shape[i]), append(f.strides, v.strides[i])
		}
		if got := v.contiguousF(); got != inOrder(f) {
			t.Fatalf("contiguousF is %v", got)
		}
	})
}

func TestContiguousViewsHaveNumPysStrides(t *testing.T) {
	shapes := [][]int{{}, {3}, {2, 3, 4}, {1, 5, 1}, {7, 1, 2}}
	var want [][2][]int
	pytest.Run(t, []string{"numpy"}, `
import json, sys
import numpy as np
json.dump([[np.empty(s, "V12", order=o).strides for o in "CF"] for s in json.load(sys.stdin)], sys.stdout)
`, shapes, &want)
	e, _, err := npy.ElemOf(reflect.TypeFor[struct{ X, Y, Z float32 }]())
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range shapes {
		for j, fortran := range []bool{false, true} {
			if v := contiguousView(e, 0, s, fortran); fmt.Sprint(v.strides) != fmt.Sprint(want[i][j]) {
				t.Errorf("%v, fortran %v: %v, NumPy's %v", s, fortran, v.strides, want[i][j])
			}
		}
	}
}

func TestNumPyAgreesAboutBoundsAndContiguity(t *testing.T) {
	type facts struct {
		Size, Offset   int
		Shape, Strides []int
		Lo, Hi         int64
		C, F           bool
	}
	var list, got []facts
	for i := range 400 {
		v := views(4).Example(i)
		v.offset += 5000
		lo, hi, err := v.bounds()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, facts{v.elem.Size(), int(v.offset), append([]int{}, v.shape...),
			append([]int{}, v.strides...), lo, hi, v.contiguousC(), v.contiguousF()})
	}
	pytest.Run(t, []string{"numpy"}, `
import json, sys
import numpy as np
bounds = getattr(np, "byte_bounds", None) or np.lib.array_utils.byte_bounds
memory = np.zeros(20000, "u1")
start = memory.__array_interface__["data"][0]
out = []
for v in json.load(sys.stdin):
    a = np.ndarray(v["Shape"], "V%d" % v["Size"], memory, v["Offset"], v["Strides"])
    lo, hi = bounds(a) if a.size else (start + v["Offset"],) * 2
    v.update(Lo=lo - start, Hi=hi - start, C=a.flags.c_contiguous, F=a.flags.f_contiguous)
    out.append(v)
json.dump(out, sys.stdout)
`, list, &got)
	if d := cmp.Diff(list, got); d != "" {
		t.Errorf("(-ours +NumPy's):\n%s", d)
	}
}

func TestViewsBeyondIntegers(t *testing.T) {
	f4 := npy.ElemOfDType(ndarray.Float32)
	for _, c := range []struct {
		name string
		v    view
		want string
	}{
		{"no type", view{}, "without an element type"},
		{"a stride missing", view{f4, 0, []int{3}, nil}, "1 dimensions with 0 strides"},
		{"a shape missing", view{f4, 0, nil, []int{4}}, "0 dimensions with 1 strides"},
		{"a negative dimension", view{f4, 0, []int{-1}, []int{4}}, "negative"},
		{"33 dimensions", view{f4, 0, make([]int, 33), make([]int, 33)}, "33 dimensions"},
		{"more elements than memory, all the same", view{f4, 0, []int{1 << 40, 1 << 40}, []int{0, 0}},
			"larger than any memory"},
		{"no elements of more than memory", view{f4, 0, []int{1 << 40, 1 << 40, 0}, []int{0, 0, 0}},
			"larger than any memory"},
		{"a stride up", view{f4, 0, []int{3}, []int{math.MaxInt}}, "beyond any memory"},
		{"a stride down", view{f4, 0, []int{3}, []int{math.MinInt}}, "beyond any memory"},
		{"two strides up", view{f4, 0, []int{2, 2}, []int{math.MaxInt, 1}}, "beyond any memory"},
		{"two strides down", view{f4, 0, []int{2, 3}, []int{math.MinInt, -1}}, "beyond any memory"},
		{"an offset up", view{f4, math.MaxInt64 - 3, nil, nil}, "beyond any memory"},
		{"an offset down", view{f4, math.MinInt64, []int{2}, []int{-4}}, "beyond any memory"},
	} {
		if lo, hi, err := c.v.bounds(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d to %d, error %v", c.name, lo, hi, err)
		}
	}
	for _, c := range []struct {
		v      view
		lo, hi int64
	}{
		{view{f4, math.MaxInt64 - 4, nil, nil}, math.MaxInt64 - 4, math.MaxInt64},
		{view{f4, 0, []int{2}, []int{math.MinInt}}, math.MinInt64, 4},
		{view{f4, 0, []int{1}, []int{math.MinInt}}, 0, 4},
		{view{f4, 7, []int{0, 5}, []int{math.MinInt, math.MaxInt}}, 7, 7},
		{view{f4, 7, []int{1 << 30}, []int{0}}, 7, 11},
	} {
		if lo, hi, err := c.v.bounds(); err != nil || lo != c.lo || hi != c.hi {
			t.Errorf("%v: %d to %d, %v", c.v, lo, hi, err)
		}
	}
}

func TestOverflowsAreReported(t *testing.T) {
	numbers := []int64{0, 1, -1, 2, -2, 1 << 31, -1 << 31, 3037000499, 3037000500, -3037000500, math.MaxInt64,
		math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1}
	for _, a := range numbers {
		for _, b := range numbers {
			sum, okSum := addInt64(a, b)
			product, okProduct := mulInt64(a, b)
			wantSum, wantProduct := new(big.Int).Add(big.NewInt(a), big.NewInt(b)),
				new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
			if okSum != wantSum.IsInt64() || okSum && sum != wantSum.Int64() {
				t.Errorf("%d + %d is %d, %v", a, b, sum, okSum)
			}
			if okProduct != wantProduct.IsInt64() || okProduct && product != wantProduct.Int64() {
				t.Errorf("%d * %d is %d, %v", a, b, product, okProduct)
			}
		}
	}
}

func TestAFieldOfAViewIsAView(t *testing.T) {
	e, err := npy.ParseElem("[('a', '<f4'), ('', '|V4'), ('b', '<u2', (2, 3)), ('c', '|b1')]")
	if err != nil {
		t.Fatal(err)
	}
	v := view{e, 100, []int{5, 4}, []int{-80, 0}}
	for _, c := range []struct{ name, want string }{
		{"a", "'<f4' 100 [5 4] [-80 0]"},
		{"b", "'<u2' 108 [5 4 2 3] [-80 0 6 2]"},
		{"c", "'|b1' 120 [5 4] [-80 0]"},
	} {
		f, ok := v.field(c.name)
		if got := fmt.Sprintln(f.elem, f.offset, f.shape, f.strides); !ok || got != c.want+"\n" {
			t.Errorf("%s is %s, expected %s", c.name, got, c.want)
		}
	}
	if f, ok := v.field("d"); ok {
		t.Errorf("d is %v", f)
	}
}
