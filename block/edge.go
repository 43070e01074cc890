package block

// Margin selects what fills the margin of a block where neither the grid nor the input has a pixel.
type Margin uint8

const (
	MarginNodata  Margin = iota // the input's nodata value, invalid
	MarginReflect               // mirrored at the edge: c b a | a b c
	MarginNearest               // the edge pixel repeated: a a a | a b c
)

func (m Margin) String() string { return [...]string{"nodata", "reflect", "nearest"}[m] }

// Fold returns the coordinate inside [lo, hi) whose pixel replaces the one at x, or x itself when
// it is inside. m must not be MarginNodata.
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
