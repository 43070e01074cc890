package apply

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"leat/apply/internal/resolve"

	"leat/apply/internal/jobspec"
	"leat/internal/worker/protocol"
	"leat/ndarray"
)

// describe returns the description of the run for an output of this type and number of bands.
func (o *output) describe(t ndarray.DType, bands int, nodata *ndarray.Scalar) (*jobspec.Description, error) {
	job, p := o.run.job, o.run.plan
	c := &job.Controls
	build, err := protocol.BuildID()
	if err != nil {
		return nil, err
	}
	d := &jobspec.Description{Build: build, Version: job.Version, Expressions: job.Expressions,
		Outputs: sortedKeys(job.Outputs),
		Output:  o.name, Path: o.spec.identity(), Width: p.Grid.Width, Height: p.Grid.Height, CRS: p.Grid.CRS.String(),
		Bands: bands, Type: t.String(), Nodata: jobspec.NodataText(nodata), Scale: o.spec.Scale, Offset: o.spec.Offset,
		TileWidth: o.tileW, TileHeight: o.tileH, Interleave: "band", Factors: o.factors,
		Method:     o.spec.OverviewMethod.String(),
		Statistics: !o.spec.NoStatistics, Histogram: !o.spec.NoHistogram,
		BlockWidth: p.Blocks.WindowWidth, BlockHeight: p.Blocks.WindowHeight, Blocks: p.Blocks.Count(),
		Overlap: p.Blocks.Overlap, Margin: c.Margin.String(), NoMask: c.NoMask, Unscale: c.Unscale,
		Collision: c.NodataCollision,
		BigEndian: bigEndian}
	if job.Function != "" {
		d.Function = job.Function
		if codec := job.Functions[job.Function].Params; codec != nil {
			if d.Params, err = jobspec.DescribeParams(codec, job.Params); err != nil {
				return nil, &JobError{Err: fmt.Errorf("Job.Params can't be saved for resuming: %w",
					err)}
			}
		}
	}
	if p.Grid.HasTransform {
		d.Transform = p.Grid.Transform[:]
	}
	if o.spec.PixelInterleave && bands > 1 {
		d.Interleave = "pixel"
	}
	candidates, err := o.candidates(t)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		d.Candidates = append(d.Candidates, c.String())
	}
	for _, f := range o.run.in.Files {
		d.Inputs = append(d.Inputs, o.run.describeInput(f))
	}
	return d, nil
}

func (r *run) describeInput(f *resolve.File) jobspec.DescribedFile {
	d := jobspec.DescribedFile{Name: f.Name, List: r.in.Lists[f.Name], Path: f.Path, FileVersion: f.Version,
		Layers: f.Layers, Type: f.Type.String(), Col: f.ColOffset, Row: f.RowOffset, Warp: f.Warp.Describe()}
	if local := resolve.LocalFile(f.From); local != "" {
		d.Path = local
	}
	d.Bytes = f.Info.FileBytes
	for i, l := range f.Layers {
		b := f.Info.Bands[l-1]
		d.Nodata = append(d.Nodata, jobspec.NodataText(f.Nodata[i]))
		d.Scales = append(d.Scales, strconv.FormatFloat(b.Scale, 'g', -1, 64))
		d.Offsets = append(d.Offsets, strconv.FormatFloat(b.Offset, 'g', -1, 64))
	}
	if f.Vector != nil {
		v := jobspec.Vector(r.job.Vectors[f.Name])
		f.Vector.Describe(f, &v, &d)
	}
	return d
}

// startSpool writes the header of the output's spool.
func (o *output) startSpool() error {
	if err := o.run.clearSpools(); err != nil {
		return err
	}
	d, err := o.describe(o.typ, o.bands, o.nodata)
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return o.file.Start(text)
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
