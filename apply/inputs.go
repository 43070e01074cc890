package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/jobspec"
	"leat/block"
	"leat/internal/units"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
)

// inputFile is one open file of an input.
type inputFile struct {
	input  string // name of the input
	index  int    // index in its list
	path   string // for messages and files: without the secrets of a URL
	from   string // for opening, on other machines too
	src    raster.Source
	remote Remote // src if it is in a store and Run opened it; else nil
	owned  bool   // Run opened it and closes it
	// version is the version of the file that is read.
	version jobspec.FileVersion
	info    *raster.Info
	layers  []int             // bands to read, counted from 1
	nodata  []*ndarray.Scalar // per layer, in the type of the pixels; nil if none
	typ     ndarray.DType     // of all layers
	// offered are the layers, with their nodata and masks, that expressions can choose from; nil
	// without expressions.
	offered       []int
	offeredNodata []*ndarray.Scalar
	offeredMasks  []maskSource
	// colOffset and rowOffset lead from a pixel of the job's grid to one of the file: file column =
	// column + colOffset.
	colOffset, rowOffset int
	masks                []maskSource // by layer
	// indexMasks computes from masks: planes, planeOf (by layer), and alpha, the number of the
	// alpha band that masks layers.
	planes  []maskSource
	planeOf []int
	alpha   int

	// How a remote file is read, why, how many bytes of it the job needs, and how many blocks have
	// yet to read it.
	mode          readMode
	readReason    string
	bytesNeeded   int64
	mixed         bool // read in pieces that can't be proven to be of one version
	pendingBlocks atomic.Int64

	warp   *warping     // how the file is warped onto the grid; nil if it lies on it
	vector *vectorInput // what is rasterized to make the file; nil for a raster
}

// inputs are the open files of a job, ordered by name and then index in the list.
type inputs struct {
	files  []*inputFile
	byName map[string][]*inputFile
	lists  map[string]bool
	// closeStore closes what opened the files in a worker process; nil otherwise.
	closeStore func() error
	checkedAt  atomic.Int64 // time of the last check for changes, in Unix nanoseconds
}

// openInputs opens the inputs of a job. With an error it returns those that it could open; the
// caller closes them.
func openInputs(ctx context.Context, job *jobspec.Job, open Opener) (*inputs, error) {
	in := &inputs{byName: map[string][]*inputFile{}, lists: map[string]bool{}}
	if open == nil {
		open = OpenLocal
	}
	type opening struct {
		f    *inputFile
		from string
		err  error
	}
	var all []*opening
	for _, name := range sortedKeys(job.Inputs) {
		spec := job.Inputs[name]
		in.lists[name] = spec.List
		for i, path := range spec.Files {
			o := &opening{f: &inputFile{input: name, index: i, path: objstore.Redact(path)}, from: path}
			if i == 0 && spec.Source != nil {
				o.f.src = spec.Source
			}
			all = append(all, o)
		}
	}
	var remote errgroup.Group
	remote.SetLimit(manyAtOnce)
	for _, o := range all {
		if o.f.from = o.from; !objstore.IsURL(o.from) && !gdalName(o.from) {
			o.f.from = absolute(o.from)
		}
		switch {
		case o.f.src != nil:
			o.f.version = versionOf(o.f.src, o.f.from)
			o.f.version.Given = true
		case objstore.IsURL(o.from):
			remote.Go(func() error {
				o.err = o.f.open(ctx, open, o.from)
				return nil
			})
		default:
			o.err = o.f.open(ctx, open, o.from)
		}
	}
	_ = remote.Wait()
	var errs []error
	for _, o := range all {
		if o.err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.input, o.err))
			continue
		}
		in.files = append(in.files, o.f)
		if err := o.f.resolve(job.Inputs[o.f.input], job.Controls.NoMask); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.input, err))
			continue
		}
		in.byName[o.f.input] = append(in.byName[o.f.input], o.f)
	}
	return in, errors.Join(errs...)
}

// resolve sets the layers, nodata and masks of an open file.
func (f *inputFile) resolve(spec jobspec.Input, noMask bool) error {
	f.info = f.src.Info()
	if r, ok := f.src.(raster.Decodable); ok {
		if err := r.Readable(); err != nil {
			return err
		}
	}
	if t := f.info.Grid.Transform; !t.Finite() {
		return fmt.Errorf("%s: its georeferencing, %v in GDAL's order, is not made of finite numbers: write it anew, with: gdal_edit.py -a_ullr ... %s", f.path, t, raster.GDALName(f.path))
	}
	f.layers = spec.Layers
	if len(f.layers) == 0 {
		for i := range f.info.Bands {
			f.layers = append(f.layers, i+1)
		}
	}
	for _, l := range f.layers {
		if l < 1 || l > len(f.info.Bands) {
			return &JobError{Err: fmt.Errorf("%s has %s, not a band %d", f.path, units.Count(len(f.info.Bands), "band"), l)}
		}
	}
	if n := len(spec.Nodata); n > 1 && n != len(f.layers) {
		return &JobError{Err: fmt.Errorf("%d nodata values for %s of %s: give one, or one for each", n,
			units.Count(len(f.layers), "layer"), f.path)}
	}
	f.typ = f.info.Bands[f.layers[0]-1].Type
	for i, l := range f.layers {
		b := f.info.Bands[l-1]
		if b.Type != f.typ {
			return fmt.Errorf("%s has bands of types %v and %v: select layers of one type", f.path, f.typ, b.Type)
		}
		nodata, mask, err := f.resolveValidity(i, l, spec, noMask)
		if err != nil {
			return err
		}
		f.nodata, f.masks = append(f.nodata, nodata), append(f.masks, mask)
	}
	f.indexMasks()
	return nil
}

func (in *inputs) close() error {
	var errs []error
	for _, f := range in.files {
		if f.owned && f.src != nil {
			errs = append(errs, f.src.Close())
			f.owned = false
		}
	}
	if in.closeStore != nil {
		errs = append(errs, in.closeStore())
		in.closeStore = nil
	}
	return errors.Join(errs...)
}

// extent returns the file's pixels in the coordinates of the job's grid.
func (f *inputFile) extent() block.Window {
	return f.info.Grid.Window().Shift(-f.colOffset, -f.rowOffset)
}

// exceeded reports whether a block of the plan, margin included, has pixels outside the file.
func (f *inputFile) exceeded(p block.Plan) bool {
	return !f.extent().Contains(block.Window{Width: p.Width, Height: p.Height}.Grow(p.Overlap))
}

// fill returns the value of pixels outside the file: nodata, or 0.
func (f *inputFile) fill(layer int) ndarray.Scalar {
	if n := f.nodata[layer]; n != nil {
		return *n
	}
	return ndarray.Scalar{Type: f.typ}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
