package outcome

import "fmt"

// Scaling is what the pixels of a band stand for: pixel*Scale + Offset, in the unit Unit.
type Scaling struct {
	Scale, Offset float64 // 1 and 0 if the pixels are the values
	Unit          string  // "" if unknown
}

// IsScaled reports whether the values are not the pixels themselves.
func (s Scaling) IsScaled() bool { return s.Scale != 1 || s.Offset != 0 }

// String returns "scale 0.0001 and offset -0.1, unit m", or "" if the pixels are the values, in an
// unknown unit.
func (s Scaling) String() string {
	text := ""
	if s.IsScaled() {
		text = fmt.Sprintf("scale %v and offset %v", s.Scale, s.Offset)
	}
	switch {
	case s.Unit == "":
		return text
	case text == "":
		return "unit " + s.Unit
	}
	return text + ", unit " + s.Unit
}
