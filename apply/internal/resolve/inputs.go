package resolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// File is one open file of an input.
type File struct {
	Name   string // name of the input
	Index  int    // index in its list
	Path   string // for messages and files: without the secrets of a URL
	From   string // for opening, on other machines too
	Source raster.Source
	Remote Remote // Source if it is in a store and Open opened it; else nil
	Owned  bool   // Close closes it
	// Version is the version of the file that is read.
	Version jobspec.FileVersion
	Info    *raster.Info
	Layers  []int             // bands to read, counted from 1
	Nodata  []*ndarray.Scalar // per layer, in the type of the pixels; nil if none
	Type    ndarray.DType     // of all layers
	// Offered are the layers, with their nodata and masks, that expressions can choose from; nil
	// without expressions.
	Offered       []int
	OfferedNodata []*ndarray.Scalar
	OfferedMasks  []jobspec.MaskSource
	// ColOffset and RowOffset lead from a pixel of the job's grid to one of the file: file column =
	// column + ColOffset.
	ColOffset, RowOffset int
	Masks                []jobspec.MaskSource // by layer
	// indexMasks computes from Masks: Planes, PlaneOf (by layer), and Alpha, the number of the
	// alpha band that masks layers.
	Planes  []jobspec.MaskSource
	PlaneOf []int
	Alpha   int

	// How a remote file is read, why, how many bytes of it the job needs, and how many blocks have
	// yet to read it.
	Mode          jobspec.ReadMode
	ReadReason    string
	BytesNeeded   int64
	mixed         bool // read in pieces that can't be proven to be of one version
	pendingBlocks atomic.Int64

	Warp   *Warping     // how the file is warped onto the grid; nil if it lies on it
	Vector *VectorInput // what is rasterized to make the file; nil for a raster
}

// Inputs are the open files of a job, ordered by name and then index in the list.
type Inputs struct {
	Files  []*File
	ByName map[string][]*File
	Lists  map[string]bool
	// closeStore closes what opened the files in a worker process; nil otherwise.
	closeStore func() error
	CheckedAt  atomic.Int64 // time of the last check for changes, in Unix nanoseconds
}

// openInputs opens the inputs of a job. With an error it returns those that it could open; the
// caller closes them.
func openInputs(ctx context.Context, job *jobspec.Job, open Opener) (*Inputs, error) {
	in := &Inputs{ByName: map[string][]*File{}, Lists: map[string]bool{}}
	type opening struct {
		f    *File
		from string
		err  error
	}
	var all []*opening
	for _, name := range slices.Sorted(maps.Keys(job.Inputs)) {
		spec := job.Inputs[name]
		in.Lists[name] = spec.List
		for i, path := range spec.Files {
			o := &opening{f: &File{Name: name, Index: i, Path: objstore.Redact(path)}, from: path}
			if i == 0 && spec.Source != nil {
				o.f.Source = spec.Source
			}
			all = append(all, o)
		}
	}
	var remote errgroup.Group
	remote.SetLimit(ManyAtOnce)
	for _, o := range all {
		if o.f.From = o.from; !objstore.IsURL(o.from) && !IsGDALName(o.from) {
			o.f.From = Absolute(o.from)
		}
		switch {
		case o.f.Source != nil:
			o.f.Version = versionOf(o.f.Source, o.f.From)
			o.f.Version.Given = true
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
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.Name, o.err))
			continue
		}
		in.Files = append(in.Files, o.f)
		if err := o.f.resolve(job.Inputs[o.f.Name], job.Controls.NoMask); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.Name, err))
			continue
		}
		in.ByName[o.f.Name] = append(in.ByName[o.f.Name], o.f)
	}
	return in, errors.Join(errs...)
}

// resolve sets the layers, nodata and masks of an open file.
func (f *File) resolve(spec jobspec.Input, noMask bool) error {
	f.Info = f.Source.Info()
	if r, ok := f.Source.(raster.Decodable); ok {
		if err := r.CheckReadable(); err != nil {
			return err
		}
	}
	if t := f.Info.Grid.Transform; !t.Finite() {
		return fmt.Errorf("%s: its georeferencing, %v in GDAL's order, is not made of finite numbers: write it anew, with: gdal_edit.py -a_ullr ... %s", f.Path, t, raster.GDALName(f.Path))
	}
	f.Layers = spec.Layers
	if len(f.Layers) == 0 {
		for i := range f.Info.Bands {
			f.Layers = append(f.Layers, i+1)
		}
	}
	for _, l := range f.Layers {
		if l < 1 || l > len(f.Info.Bands) {
			return &jobspec.JobError{Err: fmt.Errorf("%s has %s, not a band %d", f.Path, units.Count(len(f.Info.Bands), "band"), l)}
		}
	}
	if n := len(spec.Nodata); n > 1 && n != len(f.Layers) {
		return &jobspec.JobError{Err: fmt.Errorf("%d nodata values for %s of %s: give one, or one for each", n,
			units.Count(len(f.Layers), "layer"), f.Path)}
	}
	f.Type = f.Info.Bands[f.Layers[0]-1].Type
	for i, l := range f.Layers {
		b := f.Info.Bands[l-1]
		if b.Type != f.Type {
			return fmt.Errorf("%s has bands of types %v and %v: select layers of one type", f.Path, f.Type, b.Type)
		}
		nodata, mask, err := f.resolveValidity(i, l, spec, noMask)
		if err != nil {
			return err
		}
		f.Nodata, f.Masks = append(f.Nodata, nodata), append(f.Masks, mask)
	}
	f.indexMasks()
	return nil
}

func (in *Inputs) Close() error {
	var errs []error
	for _, f := range in.Files {
		if f.Owned && f.Source != nil {
			errs = append(errs, f.Source.Close())
			f.Owned = false
		}
	}
	if in.closeStore != nil {
		errs = append(errs, in.closeStore())
		in.closeStore = nil
	}
	return errors.Join(errs...)
}

// Extent returns the file's pixels in the coordinates of the job's grid.
func (f *File) Extent() block.Window {
	return f.Info.Grid.Window().Shift(-f.ColOffset, -f.RowOffset)
}

// ExceededBy reports whether a block of the plan, margin included, has pixels outside the file.
func (f *File) ExceededBy(p block.Plan) bool {
	return !f.Extent().Contains(block.Window{Width: p.Width, Height: p.Height}.Grow(p.Overlap))
}

// Fill returns the value of pixels outside the file: nodata, or 0.
func (f *File) Fill(layer int) ndarray.Scalar {
	if n := f.Nodata[layer]; n != nil {
		return *n
	}
	return ndarray.Scalar{Type: f.Type}
}
