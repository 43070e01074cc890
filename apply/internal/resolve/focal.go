package resolve

import (
	"fmt"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/expr"
	"leat/internal/gdal"
	"leat/internal/georef"
	"leat/internal/tiffwrite"
	"leat/raster"
)

// setMargin sets the overlap of a job with expressions to the margin that their focal functions
// need. It reports whether there are any.
func (r *Job) setMargin() (focal bool, _ error) {
	c := &r.Values.Controls
	if r.Values.Expressions == nil && r.Values.Variables == nil {
		return false, nil
	}
	margin := 0
	add := func(e *expr.Expr) {
		focal = focal || e.Focal()
		margin = max(margin, e.Margin())
	}
	for _, e := range linkExpressions(r.Values, r.Values.IsInput).exprs { // compile reports errors
		add(e)
	}
	for _, text := range r.Values.Variables {
		if e, err := expr.Parse(text); err == nil {
			add(e)
		}
	}
	if c.Margin != block.MarginNodata && !focal && (r.Values.Variables == nil || c.Overlap == 0) {
		r.note(outcome.Note{Field: "Controls.Margin",
			Text: fmt.Sprintf("margin %v is not used: no expression has a focal function", c.Margin)})
	}
	switch {
	case r.Values.Variables != nil && focal && c.Overlap > 0:
		return focal, &outcome.JobError{Err: jobspec.Errorf("Controls.Overlap",
			"overlap %d: expected 0 with focal functions in variables", c.Overlap)}
	case r.Values.Variables != nil && !focal:
		return focal, nil
	case c.Overlap > 0 && c.Overlap != margin:
		r.note(outcome.Note{Field: "Controls.Overlap",
			Text: fmt.Sprintf("overlap %d is not used: the expressions need %d", c.Overlap, margin)})
	}
	with := *r.Values
	with.Controls.Overlap = margin
	r.Values = &with
	return focal, nil
}

// ground returns which units the grid's transform has. domain is empty if there are no focal
// functions, which alone need them.
func ground(grid raster.Grid, domain block.Window) expr.Ground {
	crs := grid.CRS
	switch {
	case domain.Empty():
		return expr.GroundUnits
	case !grid.HasTransform:
		return expr.NoGround
	case !georef.Geographic(crs) && !georef.Projected(crs):
		crs = lookUp(crs)
	}
	switch {
	case georef.Geographic(crs):
		return expr.GroundDegrees
	case georef.Projected(crs):
		return expr.GroundUnits
	}
	return expr.UnknownGround
}

// lookUp returns a system by its code, if its geo keys or WKT do not say what its coordinates are.
func lookUp(crs raster.CRS) raster.CRS {
	if keys, err := tiffwrite.KeysOfCode(crs.Code); err == nil {
		return raster.CRS{Keys: keys}
	}
	text, err := gdal.WKT(crs)
	if err != nil {
		return raster.CRS{}
	}
	return raster.CRS{WKT: text}
}

// ReaderMargin returns what fills the margins of blocks that are read. Focal functions fill their
// own.
func (r *Job) ReaderMargin() block.Margin {
	if r.Programs != nil || !r.Domain.Empty() {
		return block.MarginNodata
	}
	return r.Values.Controls.Margin
}
