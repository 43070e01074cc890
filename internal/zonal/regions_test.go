package zonal

import (
	"math/rand/v2"
	"slices"
	"testing"

	"leat/ndarray"
)

func TestRegionsHoldEachPixelOfTheirNumber(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	const width, height = 23, 17
	ids, valid := ndarray.New(ndarray.Int16, 1, height, width), ndarray.New(ndarray.Uint8, 1, height, width)
	var g Regions
	for round := range 20 {
		id := ndarray.Slice[int16](ids)
		for i := range id {
			id[i] = int16(rng.IntN(1+round) - 3)
			valid.Data[i] = uint8(min(rng.IntN(5), 1))
		}
		mask := valid
		if round%2 == 0 {
			mask = nil
		}
		found := make([]int64, len(id))
		var order []int64
		for number, m := range g.Split(ids, mask) {
			order = append(order, number)
			for i, w := range shares(m, width, height) {
				if w == One {
					found[i] = number + 1000
				}
			}
		}
		if !slices.IsSorted(order) || len(slices.Compact(order)) != len(order) {
			t.Fatalf("zones in the order %v", order)
		}
		for i, n := range found {
			want := int64(0)
			if mask == nil || valid.Data[i] != 0 {
				want = int64(id[i]) + 1000
			}
			if n != want {
				t.Fatalf("pixel %d belongs to zone %d, expected %d", i, n-1000, want-1000)
			}
		}
	}
}
