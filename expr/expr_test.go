package expr_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"leat/block"
	"leat/expr"
	"leat/ndarray"
)

// Neighbours are those of the array, whatever its strides, mask and nodata are.
func TestFocalFunctionOfViews(t *testing.T) {
	const rows, columns = 37, 23
	rng := rand.New(rand.NewPCG(1, 2))
	all := ndarray.New(ndarray.Int16, 2, rows, columns+5)
	values := ndarray.Slice[int16](all)
	for i := range values {
		values[i] = int16(rng.IntN(9))
	}
	view := *all
	view.Shape, view.Offset = []int{2, rows, columns}, 4
	nodata := ndarray.ScalarOf[int16](3)
	mask := make([]byte, rows*columns)
	for i := range mask {
		mask[i] = byte(min(1, rng.IntN(8)))
	}
	for name, m := range map[string]block.Margin{"nodata": block.MarginNodata, "nearest": block.MarginNearest} {
		r, err := expr.Eval("focal_sum(a[2], 3)", map[string]expr.Input{"a": {Pixels: &view, Nodata: &nodata, Mask: mask}},
			&expr.Options{Type: ndarray.Int32, Nodata: "-1", Margin: m})
		if err != nil {
			t.Fatal(err)
		}
		got := ndarray.Slice[int32](r.Pixels)
		for at := range got {
			var sum, n int32
			for dr := -1; dr <= 1; dr++ {
				for dc := -1; dc <= 1; dc++ {
					y, x := at/columns+dr, at%columns+dc
					if m == block.MarginNearest {
						y, x = min(max(y, 0), rows-1), min(max(x, 0), columns-1)
					} else if y < 0 || x < 0 || y >= rows || x >= columns {
						continue
					}
					if v := values[(rows+y)*(columns+5)+x+2]; v != 3 && mask[y*columns+x] != 0 {
						sum, n = sum+int32(v), n+1
					}
				}
			}
			if n == 0 {
				sum = -1
			}
			if got[at] != sum {
				t.Fatalf("%s: pixel %d is %d, expected %d", name, at, got[at], sum)
			}
		}
	}
}

// Pixels may be anywhere in memory: reversed, transposed, repeated, or not aligned.
func TestViewsEqualCopies(t *testing.T) {
	const rows, columns = 5, 7
	data := make([]byte, 8*rows*columns+1)
	for i := range data {
		data[i] = byte(i * 37)
	}
	mask := make([]byte, rows*columns)
	for i := range mask {
		mask[i] = byte(i % 3 * 100)
	}
	for name, view := range map[string]ndarray.Array{
		"reversed":   {Strides: []int{-8 * columns, -8}, Offset: 8 * (rows*columns - 1)},
		"transposed": {Strides: []int{8, 8 * rows}},
		"repeated":   {Strides: []int{0, 8}, Offset: 16},
		"one pixel":  {Strides: []int{0, 0}, Offset: 3},
		"unaligned":  {Strides: []int{8 * columns, 8}, Offset: 1},
	} {
		view.Type, view.Shape, view.Data = ndarray.Float64, []int{rows, columns}, data
		copied := ndarray.New(view.Type, rows, columns)
		for i := range rows * columns {
			copy(copied.Data[8*i:8*i+8], data[view.Offset+i/columns*view.Strides[0]+i%columns*view.Strides[1]:])
		}
		for _, text := range []string{"a * 2", "focal_max(a, 3)"} {
			got, err := expr.Eval(text, map[string]expr.Input{"a": {Pixels: &view, Mask: mask}}, nil)
			if err != nil {
				t.Fatal(name, err)
			}
			expected, err := expr.Eval(text, map[string]expr.Input{"a": {Pixels: copied, Mask: mask}}, nil)
			if err != nil {
				t.Fatal(name, err)
			}
			if !slices.Equal(got.Pixels.Data, expected.Pixels.Data) || got.Invalid != expected.Invalid {
				t.Errorf("%s: %s differs from that of a copy", name, text)
			}
		}
	}
}

// A pixel counts from the first of the array, also where a function sees pixels around it.
func TestErrorNamesPixel(t *testing.T) {
	wide := ndarray.New(ndarray.Int64, 3, 4)
	ndarray.Slice[int64](wide)[6] = math.MaxInt64
	for _, text := range []string{"a > 1", "focal_max(a, 5) > 1"} {
		_, err := expr.Eval(text, map[string]expr.Input{"a": {Pixels: wide}}, nil)
		if err == nil || !strings.Contains(err.Error(), "a[1], pixel 6:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestInputsAreChecked(t *testing.T) {
	four := ndarray.FromSlice([]uint8{1, 2, 3, 4}, 2, 2)
	good := expr.Input{Pixels: four}
	wide := ndarray.ScalarOf[uint16](1)
	view := func(shape []int, down, right, offset int) expr.Input {
		return expr.Input{Pixels: &ndarray.Array{Type: ndarray.Uint8, Shape: shape, Strides: []int{down, right},
			Offset: offset, Data: four.Data}}
	}
	for text, inputs := range map[string]map[string]expr.Input{
		"rows and columns":  {"a": {Pixels: ndarray.New(ndarray.Uint8, 4)}},
		"another one":       {"a": good, "b": {Pixels: ndarray.New(ndarray.Uint8, 1, 4)}},
		"mask of 3 pixels":  {"a": {Pixels: four, Mask: make([]byte, 3)}},
		"nodata is uint16":  {"a": {Pixels: four, Nodata: &wide}},
		"the array has no":  {"a": {Pixels: ndarray.New(ndarray.Uint8, 0, 3)}},
		"a: the array has":  {"a": {Pixels: ndarray.New(ndarray.Uint8, 0, 3, 3)}},
		"is a constant":     {"a": good, "pi": good},
		"letters, digits":   {"a": good, "b-c": good},
		"not describe":      {"a": {Pixels: &ndarray.Array{Type: ndarray.Uint8, Shape: []int{1, 1}, Data: []byte{1}}}},
		"outside the 4":     {"a": view([]int{2, 2}, 2, 1, 1)},
		"outside the 4 b":   {"a": view([]int{2, 2}, -2, 1, 1)},
		"the 4 bytes":       {"a": view([]int{2, 2}, 1, math.MaxInt, 0)},
		"the 4 bytes of":    {"a": view([]int{1, 2}, 0, -1, math.MaxInt)},
		"shape [-1 2]":      {"a": view([]int{-1, 2}, 2, 1, 0)},
		"no input is given": {},
	} {
		if _, err := expr.Eval("a + 1", inputs, nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, expected %q", err, text)
		}
	}
	for _, text := range []string{"a + x", "a * pixel_area", "a + col", "slope(a)", "slope(a) + row"} {
		if r, err := expr.Eval(text, map[string]expr.Input{"a": good}, nil); err == nil {
			t.Errorf("%s is %v", text, r.Pixels)
		}
	}
	if _, err := expr.Eval("focal_sum(a, 3)", map[string]expr.Input{"a": good}, &expr.Options{Margin: 3}); err == nil {
		t.Error("no error for an unknown margin")
	}
	if _, err := expr.Eval("tpi(a)", map[string]expr.Input{"a": good}, nil); err != nil {
		t.Error(err) // it does not need the size of pixels
	}
	var syntax *expr.SyntaxError
	if _, err := expr.Eval("a +", map[string]expr.Input{"a": good}, nil); !errors.As(err, &syntax) {
		t.Error(err)
	}
	var types *expr.TypeError
	if _, err := expr.Eval("a + b", map[string]expr.Input{"a": good}, nil); !errors.As(err, &types) {
		t.Error(err)
	}
	r, err := expr.Eval("a[1] + 250", map[string]expr.Input{"a": good}, &expr.Options{Type: ndarray.Uint8})
	if err != nil || !slices.Equal(ndarray.Slice[uint8](r.Pixels), []uint8{251, 252, 253, 254}) {
		t.Error(r, err)
	}
}
