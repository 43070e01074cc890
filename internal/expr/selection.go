package expr

// selection describes a value that selects, pixel by pixel, unchanged pixels of inputs or literal
// numbers. Only such a value inherits the nodata value of its inputs, since a computed value may
// equal it and be valid.
type selection struct {
	refs    []int // bands, sorted
	numbers []float64
}

// selectionOf returns the union of the selections of vs, or nil if any of them is computed.
func selectionOf(vs ...val) *selection {
	s := &selection{}
	for _, v := range vs {
		switch {
		case v.konst:
			s.numbers = append(s.numbers, v.c)
		case v.t.kind == kindNodata:
		case v.chosen == nil:
			return nil
		default:
			s.refs = union(s.refs, v.chosen.refs)
			s.numbers = append(s.numbers, v.chosen.numbers...)
		}
	}
	return s
}

// holds reports whether a number of the selection equals v when class c carries it.
func (s *selection) holds(v float64, c class) bool {
	for _, n := range s.numbers {
		if c == c32 {
			n = float64(float32(n))
		}
		if n == v {
			return true
		}
	}
	return false
}
