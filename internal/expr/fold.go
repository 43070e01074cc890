package expr

import "leat/block"

// Fold returns the coordinate inside [lo, hi) whose pixel replaces the one at x, or x itself when
// it is inside. m must not be block.MarginNodata.
func Fold(m block.Margin, x, lo, hi int) int {
	n := hi - lo
	x -= lo
	switch {
	case x >= 0 && x < n:
	case m == block.MarginNearest:
		x = min(max(x, 0), n-1)
	default:
		x %= 2 * n
		if x < 0 {
			x += 2 * n
		}
		if x >= n {
			x = 2*n - 1 - x
		}
	}
	return lo + x
}
