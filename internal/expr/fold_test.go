package expr

import (
	"testing"

	"leat/block"
)

func TestFold(t *testing.T) {
	for _, c := range []struct {
		m               block.Margin
		x, lo, hi, want int
	}{
		{block.MarginReflect, -1, 0, 3, 0}, {block.MarginReflect, -3, 0, 3, 2}, {block.MarginReflect, 3, 0, 3, 2},
		{block.MarginReflect, 5, 0, 3, 0},
		{block.MarginReflect, 6, 0, 3, 0}, {block.MarginReflect, -4, 0, 3, 2}, {block.MarginReflect, 7, 5, 9, 7},
		{block.MarginReflect, 4, 5, 9, 5},
		{block.MarginNearest, -7, 0, 3, 0}, {block.MarginNearest, 9, 0, 3, 2}, {block.MarginNearest, 1, 0, 3, 1},
	} {
		if got := Fold(c.m, c.x, c.lo, c.hi); got != c.want {
			t.Errorf("Fold(%v, %d, %d, %d) = %d, expected %d", c.m, c.x, c.lo, c.hi, got, c.want)
		}
	}
}
