package block

// Margin selects what fills the margin of a block where neither the grid nor the input has a pixel.
type Margin uint8

const (
	MarginNodata  Margin = iota // the input's nodata value, invalid
	MarginReflect               // mirrored at the edge: c b a | a b c
	MarginNearest               // the edge pixel repeated: a a a | a b c
)

func (m Margin) String() string { return [...]string{"nodata", "reflect", "nearest"}[m] }
