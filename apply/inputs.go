package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"leat/block"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
)

// inputFile is one open file of an input.
type inputFile struct {
	input  string // name of the input
	index  int    // place in its list
	path   string // for messages and files: without the secrets of a URL
	from   string // for opening, on other machines too
	src    raster.Source
	remote Remote // src where it is in a store and Run opened it; else nil
	owned  bool   // Run opened it and closes it
	// version is the one that is read.
	version fileVersion
	info    *raster.Info
	layers  []int             // bands to read, counted from 1
	nodata  []*ndarray.Scalar // per layer, in the type of the pixels; nil: none
	typ     ndarray.DType     // of all layers
	// offered are the layers, and their nodata, from which expressions chose those above; nil without expressions.
	offered       []int
	offeredNodata []*ndarray.Scalar
	// dc and dr lead from a pixel of the job's grid to one of the file: file column = column + dc.
	dc, dr int
	masked bool // a mask or alpha band decides validity
	alpha  int  // number of the alpha band when masked by it

	// How a remote file is read, why, the bytes of it that the job needs, and the blocks that have still to read it.
	access access
	why    string
	needs  int64
	mixed  bool // read in pieces of which nobody can tell whether they are of one version
	left   atomic.Int64

	warp   *warping     // how it is brought onto the grid; nil where it lies there
	vector *vectorInput // what is rasterised to make it; nil for a raster
}

// inputs are the open files of a job, ordered by name and then place in the list.
type inputs struct {
	files  []*inputFile
	byName map[string][]*inputFile
	lists  map[string]bool
	// closeSite ends what opened them in a worker elsewhere; nil otherwise.
	closeSite func() error
	looked    atomic.Int64 // when it was last seen that none has changed, in Unix nanoseconds
}

func openInputs(ctx context.Context, job *Job) (*inputs, error) {
	in := &inputs{byName: map[string][]*inputFile{}, lists: map[string]bool{}}
	open := job.Open
	if open == nil {
		open = openLocal
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
	var far errgroup.Group
	far.SetLimit(manyAtOnce)
	for _, o := range all {
		if o.f.from = o.from; !objstore.IsURL(o.from) && !gdalName(o.from) {
			o.f.from = absolute(o.from)
		}
		switch {
		case o.f.src != nil:
			o.f.version = versionOf(o.f.src, o.f.from)
			o.f.version.given = true
		case objstore.IsURL(o.from):
			far.Go(func() error {
				o.err = o.f.open(ctx, open, o.from)
				return nil
			})
		default:
			o.err = o.f.open(ctx, open, o.from)
		}
	}
	_ = far.Wait()
	var errs []error
	for _, o := range all {
		if o.err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.input, o.err))
			continue
		}
		in.files = append(in.files, o.f)
		in.byName[o.f.input] = append(in.byName[o.f.input], o.f)
		if err := o.f.resolve(job.Inputs[o.f.input], job.Controls.NoMask); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.input, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(append(errs, in.close())...)
	}
	return in, nil
}

// resolve settles layers, nodata and masks of an open file.
func (f *inputFile) resolve(spec Input, noMask bool) error {
	f.info = f.src.Info()
	if r, ok := f.src.(raster.Readable); ok {
		if err := r.Readable(); err != nil {
			return err
		}
	}
	f.layers = spec.Layers
	if len(f.layers) == 0 {
		for i := range f.info.Bands {
			f.layers = append(f.layers, i+1)
		}
	}
	for _, l := range f.layers {
		if l < 1 || l > len(f.info.Bands) {
			return &JobError{fmt.Errorf("%s has %s, not a band %d", f.path, count(len(f.info.Bands), "band"), l)}
		}
	}
	if n := len(spec.Nodata); n > 1 && n != len(f.layers) {
		return &JobError{fmt.Errorf("%d nodata values for %s of %s: give one, or one for each", n, count(len(f.layers), "layer"), f.path)}
	}
	f.typ = f.info.Bands[f.layers[0]-1].Type
	for i, l := range f.layers {
		b := f.info.Bands[l-1]
		if b.Type != f.typ {
			return fmt.Errorf("%s has bands of types %v and %v: select layers of one type", f.path, f.typ, b.Type)
		}
		nodata := b.Nodata
		if len(spec.Nodata) > 0 {
			text := spec.Nodata[min(i, len(spec.Nodata)-1)]
			switch text {
			case "":
			case "none":
				nodata = nil
			default:
				v, err := ndarray.ParseScalar(text, f.typ)
				if err != nil {
					return &JobError{fmt.Errorf("nodata %s for %s: not a value of its type, %v; use another, or none", text, f.path, f.typ)}
				}
				nodata = &v
			}
		}
		if noMask {
			nodata = nil
		}
		f.nodata = append(f.nodata, nodata)
	}
	if !noMask || f.warp != nil { // a warped one's mask is then of what it covers
		switch f.info.Mask {
		case raster.MaskDataset:
			_, f.masked = f.src.(raster.Masker)
		case raster.MaskAlpha:
			f.alpha = f.info.AlphaBand()
			f.masked = f.alpha > 0
		}
	}
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
	if in.closeSite != nil {
		errs = append(errs, in.closeSite())
		in.closeSite = nil
	}
	return errors.Join(errs...)
}

// extent is the file's pixels in the coordinates of the job's grid.
func (f *inputFile) extent() block.Window {
	return f.info.Grid.Window().Shift(-f.dc, -f.dr)
}

// outside reports whether a block of the plan, margin included, has pixels that the file has not.
func (f *inputFile) outside(p block.Plan) bool {
	return !f.extent().Contains(block.Window{Width: p.Width, Height: p.Height}.Grow(p.Overlap))
}

// fill is the value of pixels that the file does not have: nodata, or 0.
func (f *inputFile) fill(layer int) ndarray.Scalar {
	if n := f.nodata[layer]; n != nil {
		return *n
	}
	return ndarray.Scalar{Type: f.typ}
}

// alphaMask reads the alpha band as a mask of rows of w.Width bytes in dst.
func (f *inputFile) alphaMask(ctx context.Context, w block.Window, dst []byte) error {
	t := f.info.Bands[f.alpha-1].Type
	a := ndarray.New(t, 1, w.Height, w.Width)
	if err := f.src.Read(ctx, []int{f.alpha}, w, a); err != nil {
		return err
	}
	maskOf(dst, a.Raw())
	return nil
}

// maskOf sets dst to 255 where a pixel of an alpha band is not 0, else to 0.
func maskOf(dst, alpha []byte) {
	size := len(alpha) / len(dst)
	for i := range dst {
		dst[i] = 0
		for _, b := range alpha[i*size : (i+1)*size] {
			if b != 0 {
				dst[i] = 255
			}
		}
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
