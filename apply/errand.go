package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// errand is what a worker in another process is told of a run, as JSON (docs/format/worker.md): all that was decided, so that nothing is
// decided twice.
type errand struct {
	Expressions map[string]string       `json:"expressions,omitempty"`
	Function    string                  `json:"function,omitempty"`
	Params      []byte                  `json:"params,omitempty"`
	Emits       bool                    `json:"emits,omitempty"`
	Merges      bool                    `json:"merges,omitempty"`     // somebody takes what is emitted
	BigEndian   bool                    `json:"big_endian,omitempty"` // pixels of overviews in results
	Inputs      []errandInput           `json:"inputs"`
	Outputs     map[string]errandOutput `json:"outputs"`
	Controls    Controls                `json:"controls"`
	Grid        raster.Grid             `json:"grid"`
	Blocks      block.Plan              `json:"blocks"`
	// Reads: workers open the inputs and read them themselves; else blocks come with their arrays in shared memory.
	Reads      bool   `json:"reads"`
	CacheBytes int64  `json:"cache_bytes,omitempty"`
	GDALBytes  int64  `json:"gdal_bytes,omitempty"` // that GDAL may keep of what it reads
	Mixed      bool   `json:"mixed,omitempty"`      // workers need not give the same bytes
	Workers    int    `json:"workers"`
	Site       []byte `json:"site,omitempty"`
}

// errandInput is a file of an input, with what the run made of it.
type errandInput struct {
	Name   string            `json:"name"`
	List   bool              `json:"list,omitempty"`
	Index  int               `json:"index"`
	Path   string            `json:"path"`           // for messages
	From   string            `json:"from,omitempty"` // to open; only where workers read
	Info   raster.Info       `json:"info"`
	Layers []int             `json:"layers"`
	Nodata []*ndarray.Scalar `json:"nodata"`
	DC     int               `json:"column_offset"` // from a column of the run's grid to one of the file
	DR     int               `json:"row_offset"`
	Access access            `json:"access,omitempty"` // how it is read where it is in a store
	Masked bool              `json:"masked,omitempty"`
	Alpha  int               `json:"alpha,omitempty"`
	// Version is the one that the run has seen; only where workers read.
	Version *fileVersion `json:"version,omitempty"`
	// Warp is how it is brought onto the grid; only where workers read.
	Warp *warping `json:"warp,omitempty"`
}

// errandOutput is an output without its file.
type errandOutput struct {
	Spec   Output          `json:"spec"`
	Type   ndarray.DType   `json:"type"`  // NoType: that of the first block
	Bands  int             `json:"bands"` // 0: those of the first block
	Nodata *ndarray.Scalar `json:"nodata,omitempty"`
}

// errand describes the run for workers. It is taken before the first block, since that settles what is open.
func (r *run) errand(reads bool) (*errand, error) {
	job := r.job
	e := &errand{Expressions: job.Expressions, Function: job.Function, Emits: job.Emits != nil, Outputs: map[string]errandOutput{}, Controls: job.Controls,
		Grid: r.plan.Grid, Blocks: r.plan.Blocks, Reads: reads, CacheBytes: r.plan.CacheBytes / int64(max(1, r.plan.shares)), GDALBytes: r.plan.gdalBytes, Mixed: job.Concurrency.Mixed, BigEndian: bigEndian, Merges: job.Merge != nil, Workers: r.plan.Workers, Site: job.Concurrency.Site}
	if job.Function != "" {
		if codec := job.Functions[job.Function].Params; codec != nil {
			var err error
			if e.Params, err = codec.Encode(job.Params); err != nil {
				return nil, &JobError{fmt.Errorf("Job.Params can't be sent to workers: %w", err)}
			}
		}
	}
	for _, f := range r.in.files {
		info := *f.info
		info.Metadata, info.Domains, info.Overviews = nil, nil, nil
		if err := plainScales(&info, job.Controls.Unscale); err != nil {
			return nil, fmt.Errorf("input %s: %s %w", f.input, f.path, err)
		}
		i := errandInput{Name: f.input, List: r.in.lists[f.input], Index: f.index, Path: f.path, Info: info, Layers: f.layers, Nodata: f.nodata,
			DC: f.dc, DR: f.dr, Access: f.access, Masked: f.masked, Alpha: f.alpha}
		if f.offered != nil { // the compiler there makes the same choice among all
			i.Layers, i.Nodata = f.offered, f.offeredNodata
		}
		if reads {
			i.From = f.from
			i.Version, i.Warp = &f.version, f.warp
		}
		e.Inputs = append(e.Inputs, i)
	}
	for _, o := range r.outs {
		spec := o.spec
		spec.Path, spec.TempDir, spec.BeforeClose = o.spec.label(), "", nil
		e.Outputs[o.name] = errandOutput{Spec: spec, Type: o.typ, Bands: o.bands, Nodata: o.nodata}
	}
	return e, nil
}

// plainScales leaves scales and offsets that JSON has no number for out of what workers are told, where nothing depends on them.
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

// restore makes the run that an errand describes, as far as a worker has part in it: it has no spools and no budget.
func (e *errand) restore(ctx context.Context, o *WorkOptions) (_ *run, err error) {
	if e.BigEndian != bigEndian {
		return nil, errors.New("this machine has another byte order than the run's: it can't work for it, mixed or not")
	}
	job := &Job{Expressions: e.Expressions, Controls: e.Controls, Inputs: map[string]Input{}, Outputs: map[string]Output{}}
	if err := e.bind(job, o.Functions); err != nil {
		return nil, err
	}
	for name, out := range e.Outputs {
		job.Outputs[name] = out.Spec
	}
	in := &inputs{byName: map[string][]*inputFile{}, lists: map[string]bool{}}
	for i := range e.Inputs {
		d := &e.Inputs[i]
		if len(d.Layers) == 0 || len(d.Layers) != len(d.Nodata) || d.Layers[0] < 1 || d.Layers[0] > len(d.Info.Bands) {
			return nil, fmt.Errorf("the run describes no layers of %s", d.Path)
		}
		f := &inputFile{input: d.Name, index: d.Index, path: d.Path, from: d.From, info: &d.Info, layers: d.Layers, nodata: d.Nodata,
			typ: d.Info.Bands[d.Layers[0]-1].Type, dc: d.DC, dr: d.DR, access: d.Access, masked: d.Masked, alpha: d.Alpha}
		in.files = append(in.files, f)
		in.byName[d.Name] = append(in.byName[d.Name], f)
		in.lists[d.Name] = d.List
	}
	outs, err := resolveOutputs(job)
	if err != nil {
		return nil, err
	}
	r := &run{job: job, in: in, outs: outs, log: discard(o.Logger), function: job.Func}
	if job.Expressions != nil {
		if err := r.compile(e.Grid); err != nil {
			return nil, err
		}
	}
	for _, out := range r.outs {
		d := e.Outputs[out.name]
		out.run, out.typ, out.bands, out.nodata, out.elsewhere = r, d.Type, d.Bands, d.Nodata, true
		out.size(e.Grid)
	}
	r.plan = &Plan{Grid: e.Grid, Blocks: e.Blocks, Workers: 1, Readers: 1, CacheBytes: e.CacheBytes}
	r.indexFiles()
	if !e.Reads {
		return r, nil
	}
	if o.Opener != nil {
		if job.Open, in.closeSite, err = o.Opener(e.Site); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(boundGDAL(e.GDALBytes), e.open(ctx, r)); err != nil {
		return nil, errors.Join(err, in.close())
	}
	r.shareTiles()
	return r, nil
}

// bind finds the errand's function.
func (e *errand) bind(job *Job, functions Functions) error {
	if e.Function == "" {
		return nil
	}
	job.Functions, job.Function = functions, e.Function
	if err := bindFunction(job); err != nil {
		return fmt.Errorf("this program is not the one that the run is of: %w", err)
	}
	if e.Emits != (job.Emits != nil) {
		return fmt.Errorf("this program is not the one that the run is of: its function %q emits otherwise", e.Function)
	}
	if e.Merges {
		job.Merge = func(int, any) error { return nil } // the run has the true one
	}
	if codec := functions[e.Function].Params; codec != nil {
		var err error
		if job.Params, err = codec.Decode(e.Params); err != nil {
			return fmt.Errorf("the parameters of the function %q can't be read: %w", e.Function, err)
		}
	}
	return nil
}

// open opens the inputs of a worker that reads, and holds them to what the run has seen.
func (e *errand) open(ctx context.Context, r *run) error {
	open := r.job.Open
	if open == nil {
		open = openLocal
	}
	var errs []error
	for i, f := range r.in.files {
		if len(f.layers) == 0 || f.access == accessNone {
			continue
		}
		if err := f.reopen(ctx, open, e.Inputs[i].Warp, e.Mixed); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w: workers read their inputs themselves and must find them under the same names", f.input, err))
			continue
		}
		if f.remote != nil && f.access == accessWhole {
			staged, err := f.remote.Stage()
			if err != nil {
				errs = append(errs, fmt.Errorf("input %s: %s can't be staged: %w", f.input, f.path, err))
			} else if !staged {
				f.access = accessPieces
			}
		}
		if err := e.Inputs[i].same(f); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", f.input, err))
		}
	}
	return errors.Join(errs...)
}

// same reports how the file that a worker opened differs from the one that the run has seen.
func (d *errandInput) same(f *inputFile) error {
	now := *f.src.Info()
	if d.Version == nil {
		return fmt.Errorf("%s: the run does not say which version of it is to be read", f.path)
	}
	if text := d.Version.differs(&f.version, f.path); text != "" {
		return errors.New(text)
	}
	if err := plainScales(&now, false); err != nil {
		return err
	}
	if now.Grid.Width != d.Info.Grid.Width || now.Grid.Height != d.Info.Grid.Height || now.Grid.Transform != d.Info.Grid.Transform || now.FileBytes != d.Info.FileBytes ||
		now.Mask != d.Info.Mask || !slices.EqualFunc(now.Bands, d.Info.Bands, sameBand) {
		return fmt.Errorf("%s has another grid, other bands, or another mask than for the run: it is another file, or its metadata were changed", f.path)
	}
	return nil
}

// sameBand reports whether the pixels of two bands mean the same.
func sameBand(a, b raster.Band) bool {
	return a.Type == b.Type && nodataText(a.Nodata) == nodataText(b.Nodata) && a.Scale == b.Scale && a.Offset == b.Offset
}

// marshal is the errand as text.
func (e *errand) marshal() (json.RawMessage, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("the run can't be described to workers: %w", err)
	}
	return text, nil
}
