package pyfunc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"leat/apply/internal/exec"
	"leat/apply/internal/jobspec"
	"leat/apply/internal/resolve"
	"leat/ndarray"
)

func (s *slot) setupMessage(b *exec.Block) *setupMessage {
	grid, blocks := b.Grid(), b.Blocks()
	m := &setupMessage{Type: "setup", Worker: s.info.Worker, Workers: s.info.Workers, Slot: s.info.Slot,
		Label: fmt.Sprintf("worker %d", s.info.Worker+1), Params: s.function.spec.Params,
		Grid:    gridMessage{Width: grid.Width, Height: grid.Height, CRS: cmp.Or(grid.CRS.Code, grid.CRS.WKT)},
		Blocks:  blocksMessage{blocks.Count(), blocks.Cols(), blocks.Rows()},
		Overlap: b.Overlap(), Inputs: []inputMessage{}, Outputs: []outputMessage{},
		Emits: s.job.Values.Function.Merges, MaxOutputBytes: b.OutputBytes()}
	if grid.HasTransform {
		m.Grid.Transform = grid.Transform[:]
	}
	if len(m.Params) == 0 {
		m.Params = json.RawMessage("null")
	}
	for i := range s.job.Inputs.Files {
		f := b.File(i)
		if n := len(m.Inputs); n == 0 || m.Inputs[n-1].Name != f.Name {
			m.Inputs = append(m.Inputs, inputMessage{Name: f.Name, List: s.job.Inputs.Lists[f.Name]})
		}
		in := &m.Inputs[len(m.Inputs)-1]
		in.Files = append(in.Files, describeFile(f, s.job.Values.Controls.Unscale))
	}
	for _, o := range s.job.Outputs {
		out := outputMessage{Name: o.Name, Bands: o.Bands, Nodata: nodataText(o.Nodata)}
		if o.Type.Valid() {
			out.Type = o.Type.String()
		} else if text := o.Spec.Nodata; text != "" && text != "none" {
			out.Nodata = &text
		}
		m.Outputs = append(m.Outputs, out)
	}
	return m
}

func describeFile(f *resolve.File, unscale bool) fileMessage {
	m := fileMessage{Path: f.Path, Type: f.Type.String(), Bands: f.Layers}
	for _, n := range f.Nodata {
		m.Nodata = append(m.Nodata, nodataText(n))
	}
	if len(f.Planes) > 0 {
		m.MaskPlanes, m.Mask = len(f.Planes), f.PlaneOf
	}
	scaled := false
	for _, l := range f.Layers {
		scale, offset := f.Scaling(l, true)
		if scale == 0 {
			scale = 1
		}
		scaled = scaled || scale != 1 || offset != 0
		m.Scale = append(m.Scale, numberText(scale))
		m.Offset = append(m.Offset, numberText(offset))
	}
	if !scaled {
		m.Scale, m.Offset = nil, nil
	}
	m.Unscale = scaled && (unscale || f.Scale != 0)
	return m
}

// CheckScales returns an error if the job applies a scale or offset that is not a finite number.
func CheckScales(job *resolve.Job) error {
	var errs []error
	for _, f := range job.Inputs.Files {
		for _, l := range f.Layers {
			if scale, offset := f.Scaling(l, job.Values.Controls.Unscale); scale-scale != 0 || offset-offset != 0 {
				errs = append(errs, jobspec.Errorf("Controls.Unscale", "input %s: %s has a band %d with scale %v and offset %v",
					f.Name, f.Path, l, scale, offset))
			}
		}
	}
	return errors.Join(errs...)
}

func nodataText(v *ndarray.Scalar) *string {
	if v == nil {
		return nil
	}
	text := v.String()
	return &text
}

// numberText returns a number as text: nan, inf and -inf where it is not finite.
func numberText(v float64) string {
	return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
}
