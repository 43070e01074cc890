package block

// Margin says what stands in the margin of a block where neither the grid nor the input has
// a pixel.
type Margin uint8

const (
	MarginNodata  Margin = iota // the input's nodata value, invalid
	MarginReflect               // mirrored about the edge: c b a | a b c
	MarginNearest               // the edge pixel again: a a a | a b c
)

func (m Margin) String() string { return [...]string{"nodata", "reflect", "nearest"}[m] }

// Fold returns for a coordinate beyond [lo, hi) the one inside whose pixel stands in for it, and x
// itself when it is inside. It must not be called for MarginNodata.
func (m Margin) Fold(x, lo, hi int) int {
	n := hi - lo
	x -= lo
	switch {
	case x >= 0 && x < n:
	case m == MarginNearest:
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
