package expr

import (
	"testing"

	"leat/ndarray"
)

func TestSmoke(t *testing.T) {
	e, err := Parse("(nir - red) / (nir + red)")
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Files: []File{{Bands: []Band{{Type: ndarray.Uint16}}}}}
	p, err := Compile(e, map[string]Input{"nir": in, "red": in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	nir := []uint16{5, 0, 7}
	red := []uint16{1, 0, 14}
	out := make([]float32, 3)
	var c Counts
	err = p.NewEvaluator().Eval([]Operand{{Data: ndarray.AsBytes(nir)}, {Data: ndarray.AsBytes(red)}}, [][]byte{ndarray.AsBytes(out)}, 3, &c)
	t.Log(p, out, c, err)
}
