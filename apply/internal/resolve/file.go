package resolve

import (
	"errors"
	"iter"
	"time"

	"leat/apply/internal/jobspec"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// File is one open file of an input. Resolve and Restore complete it; after that it is only read.
type File struct {
	Name   string // name of the input
	Index  int    // index among the files of the input
	Item   int    // index of the item of the list that the file belongs to, alone or with others
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
	Time    time.Time         // when it was taken; zero if unknown
	// Scale and Offset are those that the job gives to all layers; Scale 0: none.
	Scale, Offset float64
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

	// How a remote file is read, why, and how many bytes of it the job needs.
	Mode        jobspec.ReadMode
	ReadReason  string
	BytesNeeded int64
	mixed       bool // read in pieces that can't be proven to be of one version

	Warp   *Warping     // how the file is warped onto the grid; nil if it lies on it
	Vector *VectorInput // what is rasterized to make the file; nil for a raster
}

// Inputs are the open files of a job, ordered by name and then index in the list. They are only
// read after Resolve and Restore.
type Inputs struct {
	Files  []*File
	ByName map[string][]*File
	Lists  map[string]bool
	// closeStore closes what the files come from: in a worker process what opened them, else the
	// copies of vectors; nil if there is nothing.
	closeStore func() error
}

// Replace returns the inputs with other files in place of some of them. Only one of the two may be
// closed.
func (in *Inputs) Replace(files map[*File]*File) *Inputs {
	with := &Inputs{ByName: map[string][]*File{}, Lists: in.Lists, closeStore: in.closeStore}
	for _, f := range in.Files {
		if other := files[f]; other != nil {
			f = other
		}
		with.Files = append(with.Files, f)
		with.ByName[f.Name] = append(with.ByName[f.Name], f)
	}
	return with
}

// Close closes the files that the job opened.
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

// items yields the files of the job by items of lists: those that make up one item together.
func (in *Inputs) items() iter.Seq[[]*File] {
	return func(yield func([]*File) bool) {
		for from, f := range in.Files {
			to := from + 1
			if from > 0 && in.Files[from-1].sameItem(f) {
				continue
			}
			for to < len(in.Files) && in.Files[to].sameItem(f) {
				to++
			}
			if !yield(in.Files[from:to]) {
				return
			}
		}
	}
}

func (f *File) sameItem(other *File) bool { return f.Name == other.Name && f.Item == other.Item }

// ExceededBy reports whether a block of the plan, margin included, has pixels outside the file.
func (f *File) ExceededBy(p block.Plan) bool {
	return !f.Extent().Contains(block.Window{Width: p.Width, Height: p.Height}.Grow(p.Overlap))
}

// Scaling returns the scale and offset by which the values of a band, counted from 1, follow from
// its pixels; 0 and 0 for none. unscale is that of the job.
func (f *File) Scaling(band int, unscale bool) (scale, offset float64) {
	switch {
	case f.Scale != 0:
		return f.Scale, f.Offset
	case unscale:
		return f.Info.Bands[band-1].Scale, f.Info.Bands[band-1].Offset
	}
	return 0, 0
}

// Fill returns the value of pixels outside the file: nodata, or 0.
func (f *File) Fill(layer int) ndarray.Scalar {
	if n := f.Nodata[layer]; n != nil {
		return *n
	}
	return ndarray.Scalar{Type: f.Type}
}
