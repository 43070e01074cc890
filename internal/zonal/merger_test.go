package zonal

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"leat/block"
	"leat/ndarray"
)

// TestSpillingDoesNotChangeResults merges overlapping zones with and without space for their
// values.
func TestSpillingDoesNotChangeResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const size = 96
	stats, err := Parse("count,mean,median,p90,mode,variety")
	if err != nil {
		t.Fatal(err)
	}
	var specs []*Spec
	var values []*ndarray.Array
	for _, typ := range []ndarray.DType{ndarray.Float32, ndarray.Uint8, ndarray.Float64} {
		spec, err := NewSpec(typ, ByCoverage, stats)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := randomValues(rng, typ, size)
		specs, values = append(specs, spec), append(values, v)
	}
	polygons := []*Polygon{newPolygon([]float64{0, 0, size, 0, size, size, 0, size})}
	for range 30 {
		polygons = append(polygons, newPolygon(star(rng, size*rng.Float64(), size*rng.Float64(), 30, 20, 0)))
	}
	results := func(maxBytes int64, blockSize int, order []int) (all [][]Value, spilled bool) {
		m := NewMerger(specs, &MergerOptions{MaxBytes: maxBytes, Dir: t.TempDir()})
		defer m.Close()
		plan := block.Plan{Width: size, Height: size, WindowWidth: blockSize, WindowHeight: blockSize}
		var r Rasterizer
		var mask Mask
		for _, i := range order[:plan.Count()] {
			w := plan.At(i).Window
			for zone, p := range polygons {
				r.Cover(p, w, ByCoverage, &mask)
				var b []byte
				for j, s := range specs {
					var st State
					if err := NewCollector(s).Add(&st, &mask, window(values[j], w), nil); err != nil {
						t.Fatal(err)
					}
					b = s.Append(b, &st)
				}
				if rest, err := m.Add(int64(zone), b); err != nil || len(rest) > 0 {
					t.Fatalf("error %v, %d bytes left", err, len(rest))
				}
			}
		}
		spilled = m.fileSize > 0
		for zone := range len(polygons) + 1 { // the last has no pixels
			row, err := m.Results(nil, int64(zone))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, row)
		}
		if m.bytes != 0 || len(m.tables) != 0 || len(m.heads) != 0 {
			t.Errorf("%d bytes, %d tables and %d heads are left", m.bytes, len(m.tables), len(m.heads))
		}
		return all, spilled
	}
	want, spilled := results(0, size, []int{0})
	if spilled {
		t.Error("values were spilled within the bound")
	}
	for _, maxBytes := range []int64{1, 1000, 20000} {
		got, spilled := results(maxBytes, 24, rng.Perm(16))
		if !spilled {
			t.Errorf("at %d bytes nothing was spilled", maxBytes)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("at %d bytes the results differ", maxBytes)
		}
	}
	last := want[len(want)-1]
	if last[0].Float != 0 || last[0].Null || !last[1].Null || !last[2].Null || last[5].Int != 0 {
		t.Errorf("a zone without states has %v", last)
	}
}
