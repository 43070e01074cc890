package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// jobSpec describes a run to a worker in another process, as JSON (docs/format/worker.md). It
// contains all decisions, so that no worker has to repeat one.
type jobSpec struct {
	Expressions map[string]string     `json:"expressions,omitempty"`
	Function    string                `json:"function,omitempty"`
	Params      []byte                `json:"params,omitempty"`
	Emits       bool                  `json:"emits,omitempty"`
	Merges      bool                  `json:"merges,omitempty"`     // whether emitted values are merged
	BigEndian   bool                  `json:"big_endian,omitempty"` // byte order of overview pixels in results
	Inputs      []inputSpec           `json:"inputs"`
	Outputs     map[string]outputSpec `json:"outputs"`
	Controls    Controls              `json:"controls"`
	Grid        raster.Grid           `json:"grid"`
	Blocks      block.Plan            `json:"blocks"`
	// Reads means that workers open and read the inputs themselves; otherwise the arrays of blocks
	// come in shared memory.
	Reads      bool   `json:"reads"`
	CacheBytes int64  `json:"cache_bytes,omitempty"`
	GDALBytes  int64  `json:"gdal_bytes,omitempty"` // size of GDAL's cache
	Mixed      bool   `json:"mixed,omitempty"`      // workers need not produce the same bytes
	Workers    int    `json:"workers"`
	Site       []byte `json:"site,omitempty"`
}

// inputSpec is a file of an input, with the run's decisions on it.
type inputSpec struct {
	Name   string               `json:"name"`
	List   bool                 `json:"list,omitempty"`
	Index  int                  `json:"index"`
	Path   string               `json:"path"`           // for messages
	From   string               `json:"from,omitempty"` // to open; only if workers read
	Info   raster.Info          `json:"info"`
	Layers []int                `json:"layers"`
	Nodata []*ndarray.Scalar    `json:"nodata"`
	DC     int                  `json:"column_offset"` // from a column of the run's grid to one of the file
	DR     int                  `json:"row_offset"`
	Access resolve.ReadMode     `json:"access,omitempty"` // how the file is read if it is in a store
	Masks  []resolve.MaskSource `json:"masks"`
	// Version is the version that the run opened; only if workers read.
	Version *jobspec.FileVersion `json:"version,omitempty"`
	// Warp describes how the file is warped onto the grid; only if workers read.
	Warp *resolve.Warping `json:"warp,omitempty"`
}

// outputSpec is an output without its file.
type outputSpec struct {
	Spec   Output          `json:"spec"`
	Type   ndarray.DType   `json:"type"`  // NoType: that of the first block
	Bands  int             `json:"bands"` // 0: those of the first block
	Nodata *ndarray.Scalar `json:"nodata,omitempty"`
}

// jobSpec describes the run for workers. It is called before the first block, which sets types that
// are still open.
func (r *run) jobSpec(reads bool) (*jobSpec, error) {
	job := r.job
	e := &jobSpec{Expressions: job.Expressions, Function: job.Function, Emits: job.Emits != nil,
		Outputs: map[string]outputSpec{}, Controls: job.Controls,
		Grid: r.plan.Grid, Blocks: r.plan.Blocks, Reads: reads,
		CacheBytes: r.plan.CacheBytes / int64(max(1, r.plan.shares)), GDALBytes: r.plan.gdalBytes,
		Mixed: job.Concurrency.AllowMixedBuilds, BigEndian: bigEndian, Merges: job.Merge != nil,
		Workers: r.plan.Workers, Site: job.Concurrency.WorkerConfig}
	if job.Function != "" {
		if codec := job.Functions[job.Function].Params; codec != nil {
			var err error
			if e.Params, err = codec.Encode(job.Params); err != nil {
				return nil, &JobError{Err: fmt.Errorf("Job.Params can't be sent to workers: %w", err)}
			}
		}
	}
	for _, f := range r.in.Files {
		info := *f.Info
		info.Metadata, info.Domains, info.Overviews = nil, nil, nil
		if err := plainScales(&info, job.Controls.Unscale); err != nil {
			return nil, fmt.Errorf("input %s: %s %w", f.Name, f.Path, err)
		}
		i := inputSpec{Name: f.Name, List: r.in.Lists[f.Name], Index: f.Index, Path: f.Path, Info: info,
			Layers: f.Layers, Nodata: f.Nodata,
			DC: f.ColOffset, DR: f.RowOffset, Access: f.Mode, Masks: f.Masks}
		if f.Offered != nil { // the worker's compiler makes the same choice among all layers
			i.Layers, i.Nodata, i.Masks = f.Offered, f.OfferedNodata, f.OfferedMasks
		}
		if reads {
			i.From = f.From
			i.Version, i.Warp = &f.Version, f.Warp
		}
		e.Inputs = append(e.Inputs, i)
	}
	for _, o := range r.writers {
		spec := o.Spec
		spec.Path, spec.TempDir, spec.BeforeClose = o.Spec.Label(), "", nil
		e.Outputs[o.Name] = outputSpec{Spec: Output(spec), Type: o.Type, Bands: o.Bands, Nodata: o.Nodata}
	}
	return e, nil
}

// plainScales replaces scales and offsets that JSON can't represent. If the job uses them, it
// returns an error.
func plainScales(info *raster.Info, used bool) error {
	info.Bands = slices.Clone(info.Bands)
	for i := range info.Bands {
		b := &info.Bands[i]
		if b.Scale-b.Scale == 0 && b.Offset-b.Offset == 0 {
			continue
		}
		if used {
			return fmt.Errorf("has a band %d with scale %v and offset %v, by which workers in other processes can't compute (--unscale)", i+1, b.Scale, b.Offset)
		}
		b.Scale, b.Offset = 1, 0
	}
	return nil
}

// restore makes the worker's part of the run that the spec describes, without spools and budget.
func (e *jobSpec) restore(ctx context.Context, o *WorkOptions) (_ *run, err error) {
	if e.BigEndian != bigEndian {
		return nil, errors.New("this machine has another byte order than the run's: it can't work for it, mixed or not")
	}
	job := &Job{Expressions: e.Expressions, Controls: e.Controls, Inputs: map[string]Input{},
		Outputs: map[string]Output{}}
	if err := e.bind(job, o.Functions); err != nil {
		return nil, err
	}
	for name, out := range e.Outputs {
		job.Outputs[name] = out.Spec
	}
	in := &resolve.Inputs{ByName: map[string][]*resolve.File{}, Lists: map[string]bool{}}
	for i := range e.Inputs {
		d := &e.Inputs[i]
		if len(d.Layers) == 0 || len(d.Layers) != len(d.Nodata) || len(d.Layers) != len(d.Masks) || d.Layers[0] < 1 ||
			d.Layers[0] > len(d.Info.Bands) {
			return nil, fmt.Errorf("the run describes no layers of %s", d.Path)
		}
		f := &resolve.File{Name: d.Name, Index: d.Index, Path: d.Path, From: d.From, Info: &d.Info, Layers: d.Layers,
			Nodata: d.Nodata,
			Type:   d.Info.Bands[d.Layers[0]-1].Type, ColOffset: d.DC, RowOffset: d.DR, Mode: d.Access, Masks: d.Masks}
		f.IndexMasks()
		in.Files = append(in.Files, f)
		in.ByName[d.Name] = append(in.ByName[d.Name], f)
		in.Lists[d.Name] = d.List
	}
	res, err := resolve.Restore(job.values(), in, e.Grid)
	if err != nil {
		return nil, err
	}
	r := &run{job: job, in: in, outs: res.Outputs, log: discard(o.Logger), function: job.Func}
	if res.Programs != nil {
		r.exprs = newExpressions(r, res.Programs)
		r.function = r.exprs.compute
	}
	for _, out := range r.outs {
		d := e.Outputs[out.Name]
		out.Type, out.Bands, out.Nodata = d.Type, d.Bands, d.Nodata
		out.SetGrid(e.Grid)
		r.writers = append(r.writers, output.NewWriter(out, output.Options{Grid: e.Grid, Blocks: e.Blocks, Workers: 1,
			Timings: r.timings, Log: r.log}))
	}
	r.plan = &Plan{Grid: e.Grid, Blocks: e.Blocks, Workers: 1, Readers: 1, CacheBytes: e.CacheBytes}
	r.indexFiles()
	if !e.Reads {
		return r, nil
	}
	if o.Opener != nil {
		if job.Open, in.CloseStore, err = o.Opener(e.Site); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(resolve.BoundGDAL(e.GDALBytes), e.open(ctx, r)); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	r.shareTiles()
	return r, nil
}

// bind looks up the job's function.
func (e *jobSpec) bind(job *Job, functions Functions) error {
	if e.Function == "" {
		return nil
	}
	job.Functions, job.Function = functions, e.Function
	if err := bindFunction(job); err != nil {
		return fmt.Errorf("this program is not the program of the run: %w", err)
	}
	if e.Emits != (job.Emits != nil) {
		return fmt.Errorf("this program is not the program of the run: only one of the two emits values from the function %q", e.Function)
	}
	if e.Merges {
		job.Merge = func(int, any) error { return nil } // the coordinator calls the real Merge
	}
	if codec := functions[e.Function].Params; codec != nil {
		var err error
		if job.Params, err = codec.Decode(e.Params); err != nil {
			return fmt.Errorf("the parameters of the function %q can't be read: %w", e.Function, err)
		}
	}
	return nil
}

// open opens the inputs of a worker that reads, and compares them with those that the run opened.
func (e *jobSpec) open(ctx context.Context, r *run) error {
	open := r.job.Open
	if open == nil {
		open = resolve.OpenLocal
	}
	var errs []error
	for i, f := range r.in.Files {
		if len(f.Layers) == 0 || f.Mode == resolve.ReadNone {
			continue
		}
		if err := f.Reopen(ctx, open, e.Inputs[i].Warp, e.Mixed); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w: workers read their inputs themselves and must find them under the same names", f.Name, err))
			continue
		}
		if f.Remote != nil && f.Mode == resolve.ReadStaged {
			staged, err := f.Remote.Stage()
			if err != nil {
				errs = append(errs, fmt.Errorf("input %s: %s can't be staged: %w", f.Name, f.Path, err))
			} else if !staged {
				f.Mode = resolve.ReadPieces
			}
		}
		if err := e.Inputs[i].checkFile(f); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", f.Name, err))
		}
	}
	return errors.Join(errs...)
}

// checkFile returns an error if the file that a worker opened differs from the one that the run
// opened.
func (d *inputSpec) checkFile(f *resolve.File) error {
	now := *f.Source.Info()
	if d.Version == nil {
		return fmt.Errorf("%s: the run does not say which version of it is to be read", f.Path)
	}
	if text := d.Version.Mismatch(&f.Version, f.Path); text != "" {
		return errors.New(text)
	}
	if err := plainScales(&now, false); err != nil {
		return err
	}
	if now.Grid.Width != d.Info.Grid.Width || now.Grid.Height != d.Info.Grid.Height ||
		now.Grid.Transform != d.Info.Grid.Transform || now.FileBytes != d.Info.FileBytes ||
		now.Mask != d.Info.Mask || now.MaskFromNodata != d.Info.MaskFromNodata || !slices.EqualFunc(now.Bands,
		d.Info.Bands, sameBand) {
		return fmt.Errorf("%s has another grid, other bands, or another mask than for the run: it is another file, or its metadata were changed", f.Path)
	}
	return nil
}

// sameBand reports whether the pixels of two bands have the same meaning.
func sameBand(a, b raster.Band) bool {
	return a.Type == b.Type && jobspec.NodataText(a.Nodata) == jobspec.NodataText(b.Nodata) && a.Scale == b.Scale &&
		a.Offset == b.Offset
}

// marshal returns the spec as JSON.
func (e *jobSpec) marshal() (json.RawMessage, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("the run can't be described to workers: %w", err)
	}
	return text, nil
}
