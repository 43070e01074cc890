package plan

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/worker/protocol"
	"leat/ndarray"
)

// Describe returns the description of the run for an output of this type and number of bands.
func (p *Plan) Describe(job *resolve.Job, o *output.Output, t ndarray.DType, bands int,
	nodata *ndarray.Scalar) (*jobspec.Description, error) {
	values := job.Values
	c := &values.Controls
	build, err := protocol.BuildID()
	if err != nil {
		return nil, err
	}
	d := &jobspec.Description{Build: build, Version: values.Version, Expressions: values.Expressions,
		Variables: values.Variables, Outputs: slices.Sorted(maps.Keys(values.Outputs)),
		Output: o.Name, Path: o.Spec.Identity(), Width: p.Grid.Width, Height: p.Grid.Height,
		CRS: p.Grid.CRS.String(), Bands: bands,
		Type: t.String(), Nodata: jobspec.NodataText(nodata), Scale: o.Spec.Scale, Offset: o.Spec.Offset,
		Alpha:     alphaBand(*o, t, bands, nodata),
		TileWidth: o.TileWidth, TileHeight: o.TileHeight, Interleave: "band", Factors: o.Factors,
		Method:     o.Method.String(),
		Statistics: !o.Spec.NoStatistics, Histogram: !o.Spec.NoHistogram,
		BlockWidth: p.Blocks.WindowWidth, BlockHeight: p.Blocks.WindowHeight, Blocks: p.Blocks.Count(),
		Skipped: p.SkippedBlocks,
		Overlap: p.Blocks.Overlap, Margin: c.Margin.String(), NoMask: c.NoMask, Unscale: c.Unscale,
		Cutline: c.Cutline, Collision: c.NodataCollision,
		BigEndian: jobspec.BigEndian}
	for name, text := range values.Tables {
		if d.Tables == nil {
			d.Tables = map[string]string{}
		}
		d.Tables[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	if w := job.Domain; !w.Empty() {
		d.Domain = []int{w.Col, w.Row, w.Width, w.Height}
	}
	if transforms(job) {
		if d.PROJ, err = gdal.PROJVersion(); err != nil {
			return nil, err
		}
	}
	if f := values.Function.Loaded(); f.Name != "" || f.Source != "" {
		d.Function, d.Source = f.Name, f.Source
		if f.ParamsCodec != nil {
			params := f.Params
			if f.Source != "" {
				params = f.DescribedParams
			}
			if d.Params, err = jobspec.DescribeParams(f.ParamsCodec, params); err != nil {
				return nil, &outcome.JobError{Err: fmt.Errorf("Job.Params can't be saved for resuming: %w", err)}
			}
		}
	}
	if p.Grid.HasTransform {
		d.Transform = p.Grid.Transform[:]
	}
	if o.Spec.PixelInterleave && bands > 1 {
		d.Interleave = "pixel"
	}
	candidates, err := o.Candidates(t)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		d.Candidates = append(d.Candidates, c.String())
	}
	for _, f := range job.Inputs.Files {
		d.Inputs = append(d.Inputs, describeInput(job, f))
	}
	return d, nil
}

// transforms reports whether PROJ computes coordinates that results depend on.
func transforms(job *resolve.Job) bool {
	if slices.ContainsFunc(job.Inputs.Files, func(f *resolve.File) bool {
		return f.Warp != nil || f.Vector != nil && len(f.Layers) > 0 && f.Vector.Transformed()
	}) {
		return true
	}
	return !gdal.IsWGS84(job.Grid.CRS) && slices.ContainsFunc(slices.Concat(job.Programs, job.Variables),
		func(p *resolve.Program) bool { return p.Geodetic() })
}

// alphaBand returns the alpha band of an output with this type, bands and nodata.
func alphaBand(o output.Output, t ndarray.DType, bands int, nodata *ndarray.Scalar) int {
	o.Type, o.Bands, o.Nodata = t, bands, nodata
	return o.AlphaBand()
}

func describeInput(job *resolve.Job, f *resolve.File) jobspec.DescribedFile {
	d := jobspec.DescribedFile{Name: f.Name, List: job.Inputs.Lists[f.Name], Item: f.Item, Path: f.Path,
		FileVersion: f.Version,
		Layers:      f.Layers, Type: f.Type.String(), Col: f.ColOffset, Row: f.RowOffset, Warp: f.Warp.Describe()}
	if local := resolve.LocalFile(f.From); local != "" {
		d.Path = local
	}
	d.Bytes = f.Info.FileBytes
	if !f.Time.IsZero() {
		d.Time = f.Time.UTC().Format(time.RFC3339Nano)
	}
	for i, l := range f.Layers {
		scale, offset := f.Scaling(l, true)
		given := ""
		if f.Scale != 0 { // it counts without Controls.Unscale, too
			given = " (given)"
		}
		d.Nodata = append(d.Nodata, jobspec.NodataText(f.Nodata[i]))
		d.Scales = append(d.Scales, strconv.FormatFloat(scale, 'g', -1, 64)+given)
		d.Offsets = append(d.Offsets, strconv.FormatFloat(offset, 'g', -1, 64)+given)
	}
	if f.Vector != nil {
		v := job.Values.Vectors[f.Name]
		f.Vector.Describe(f, &v, &d)
	}
	return d
}
