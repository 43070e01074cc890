package output

import (
	"cmp"

	"leat/apply/outcome"
)

// Scaling returns what the pixels of a band, counted from 0, stand for: what the job says, else
// what they inherit.
func (o *Output) Scaling(band int) outcome.Scaling {
	s := outcome.Scaling{Scale: cmp.Or(o.Spec.Scale, 1), Offset: o.Spec.Offset}
	if o.inheritsScale() {
		s = o.Inherited[band]
	}
	if o.Spec.Unit != "" {
		s.Unit = o.Spec.Unit
	}
	return s
}

// inheritsScale reports whether the scale and offset are those of inputs, and not the job's.
func (o *Output) inheritsScale() bool {
	return len(o.Inherited) > 0 && o.Spec.Scale == 0 && o.Spec.Offset == 0
}
