package expr_test

import (
	"errors"
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

func TestInputsAreChecked(t *testing.T) {
	four := ndarray.FromSlice([]uint8{1, 2, 3, 4}, 2, 2)
	good := expr.Input{Pixels: four}
	wide := ndarray.ScalarOf[uint16](1)
	for text, inputs := range map[string]map[string]expr.Input{
		"rows and columns":  {"a": {Pixels: ndarray.New(ndarray.Uint8, 4)}},
		"another one":       {"a": good, "b": {Pixels: ndarray.New(ndarray.Uint8, 1, 4)}},
		"mask of 3 pixels":  {"a": {Pixels: four, Mask: make([]byte, 3)}},
		"nodata is uint16":  {"a": {Pixels: four, Nodata: &wide}},
		"has no pixels":     {"a": {Pixels: ndarray.New(ndarray.Uint8, 0, 3)}},
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
