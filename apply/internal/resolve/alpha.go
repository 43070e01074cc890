package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/raster"
)

// alphaNotes returns a note for each output with an alpha band that the job asks for and a nodata
// value, which readers use instead.
func alphaNotes(job *jobspec.Job, outs []*output.Output) (notes []outcome.Note) {
	for _, o := range outs {
		if o.Nodata == nil || !slices.Contains(o.Spec.ColorInterp, raster.ColorAlpha) {
			continue
		}
		note := outcome.Note{Field: "Output.ColorInterp", Text: fmt.Sprintf(
			"output %s has the nodata value %v, so that readers ignore its alpha band", o.Name, o.Nodata)}
		if job.Expressions != nil && o.Spec.Nodata == "" {
			note.Value = cmp.Or(slices.Sorted(maps.Keys(job.Inputs))...)
		}
		notes = append(notes, note)
	}
	return notes
}
