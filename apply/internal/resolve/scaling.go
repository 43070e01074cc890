package resolve

import (
	"fmt"

	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/internal/expr"
)

// inheritScalings sets the scale, offset and unit of each band of an output whose selected input
// bands agree on them.
func inheritScalings(o *output.Output, in *Inputs, p *expr.Program) {
	o.Inherited, o.NotInherited = make([]outcome.Scaling, p.Bands()), nil
	for i := range o.Inherited {
		o.Inherited[i].Scale = 1
		if o.Spec.Scale != 0 || o.Spec.Offset != 0 || o.Spec.Polygons {
			continue
		}
		refs, exact := p.SelectedBands(i + 1)
		s, differ := commonScaling(in, refs)
		note := outcome.Note{Field: "Input.Scale", Text: differ}
		if s.IsScaled() && !exact {
			note = outcome.Note{Field: "Output.Type", Text: fmt.Sprintf("%v does not hold them all", p.Type())}
		}
		if note.Text == "" {
			o.Inherited[i] = s
		} else if o.NotInherited == nil {
			note.Text = fmt.Sprintf("output %s does not keep the scale of its pixels: %s", o.Name, note.Text)
			o.NotInherited = &note
		}
	}
}

// scalingNotes returns the notes on scales that outputs do not inherit.
func scalingNotes(outs []*output.Output) (notes []outcome.Note) {
	for _, o := range outs {
		if o.NotInherited != nil {
			notes = append(notes, *o.NotInherited)
		}
	}
	return notes
}

// commonScaling returns the scale and offset of all these bands, and the unit if that is the same.
// differ says where scales or offsets differ.
func commonScaling(in *Inputs, refs []expr.Ref) (common outcome.Scaling, differ string) {
	common.Scale = 1
	for i, r := range refs {
		s := in.scaling(r)
		if i == 0 {
			common = s
		}
		if s.Scale != common.Scale || s.Offset != common.Offset {
			return outcome.Scaling{Scale: 1}, fmt.Sprintf("%s has scale %v and offset %v, %s has %v and %v",
				in.bandText(refs[0]), common.Scale, common.Offset, in.bandText(r), s.Scale, s.Offset)
		}
		if s.Unit != common.Unit {
			common.Unit = ""
		}
	}
	return common, ""
}

// scaling returns what the pixels of a band stand for according to its file. A scale that is 0 or
// not finite is none. An input whose scale the job gives has no unit: the file's belongs to the
// file's scale.
func (in *Inputs) scaling(r expr.Ref) outcome.Scaling {
	f := in.ByName[r.Name][r.File]
	b := &f.Info.Bands[f.Layers[r.Band-1]-1]
	if f.Scale != 0 || b.Scale-b.Scale != 0 || b.Offset-b.Offset != 0 || b.Scale == 0 && b.Offset != 0 {
		return outcome.Scaling{Scale: 1}
	}
	s := outcome.Scaling{Scale: b.Scale, Offset: b.Offset, Unit: b.Unit}
	if s.Scale == 0 { // a source that gives none may leave it 0
		s.Scale = 1
	}
	return s
}

// bandText names a band of a file for messages.
func (in *Inputs) bandText(r expr.Ref) string {
	f := in.ByName[r.Name][r.File]
	if len(f.Info.Bands) == 1 {
		return f.Path
	}
	return fmt.Sprintf("band %d of %s", f.Layers[r.Band-1], f.Path)
}
