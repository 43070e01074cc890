package apply

import (
	"fmt"

	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// Block is a function's view of one block. It is valid during one call of the function only, and so
// are the arrays from In, InList, Valid, ValidList and NewOut: later blocks reuse their memory.
//
// All arrays have the shape (bands, rows, columns), even those with one band, and include the
// margin: Rows = window height + 2*Overlap, and Columns = window width + 2*Overlap.
type Block struct {
	block.Block // number, place in the grid of blocks, window without margin
	run         *run
	data        *blockData
	worker      *computeState
	outs        map[string]*ndarray.Array
	emitted     []any
	extras      []spool.Extra    // results of the block other than pixels, by output
	valid       []*ndarray.Array // by file, computed on demand
}

// Total returns the number of blocks of the run.
func (b *Block) Total() int { return b.run.plan.Blocks.Count() }

// First reports whether this is block 0. Blocks are computed in any order.
func (b *Block) First() bool { return b.Number == 0 }

// Last reports whether this is the block with the highest number.
func (b *Block) Last() bool { return b.Number == b.Total()-1 }

// BlocksAcross returns the number of columns of blocks.
func (b *Block) BlocksAcross() int { return b.run.plan.Blocks.Cols() }

// BlocksDown returns the number of rows of blocks.
func (b *Block) BlocksDown() int { return b.run.plan.Blocks.Rows() }

// Overlap returns the width of the margin in pixels, the same on each side.
func (b *Block) Overlap() int { return b.run.plan.Blocks.Overlap }

// Rows returns the height of the arrays, margin included.
func (b *Block) Rows() int { return b.Window.Height + 2*b.Overlap() }

// Columns returns the width of the arrays, margin included.
func (b *Block) Columns() int { return b.Window.Width + 2*b.Overlap() }

// Grid returns the grid of the whole run: size, transform and CRS.
func (b *Block) Grid() raster.Grid { return b.run.plan.Grid }

// Transform returns the transform of the block's arrays: pixel (0, 0) is the upper left one of the
// margin.
func (b *Block) Transform() raster.Transform {
	return b.run.plan.Grid.Transform.Shift(b.Window.Col-b.Overlap(), b.Window.Row-b.Overlap())
}

// PixelSize returns the width and height of a pixel in units of the CRS, both positive.
func (b *Block) PixelSize() (width, height float64) {
	t := b.run.plan.Grid.Transform
	return max(t[1], -t[1]), max(t[5], -t[5])
}

// Coordinates returns the map coordinates of the pixels' centres: x of each column and y of each
// row, margin included.
func (b *Block) Coordinates() (x, y []float64) {
	t := b.Transform()
	x, y = make([]float64, b.Columns()), make([]float64, b.Rows())
	for i := range x {
		x[i], _ = t.Apply(float64(i)+0.5, 0.5)
	}
	for i := range y {
		_, y[i] = t.Apply(0.5, float64(i)+0.5)
	}
	return x, y
}

// Pixel returns the column and row, in the block's arrays, of the pixel that contains a map
// coordinate. They may lie outside the arrays.
func (b *Block) Pixel(x, y float64) (col, row int) {
	c, r, _ := b.Transform().Invert(x, y)
	return floor(c), floor(r)
}

func floor(v float64) int {
	n := int(v)
	if float64(n) > v {
		n--
	}
	return n
}

// Params returns Job.Params.
func (b *Block) Params() any { return b.run.job.Params }

// State returns what Job.Setup returned for this worker.
func (b *Block) State() any { return b.worker.state }

// In returns the array of an input of one file. It panics if there is no such input, or if the
// input is a list.
func (b *Block) In(name string) *ndarray.Array {
	i := b.file(name)
	return b.data.files[i].array
}

// InList returns the arrays of an input, in the order of its files.
func (b *Block) InList(name string) []*ndarray.Array {
	var list []*ndarray.Array
	for _, i := range b.fileIndices(name) {
		list = append(list, b.data.files[i].array)
	}
	return list
}

// Valid returns the valid pixels of an input of one file: an array of uint8 of the input's shape
// with 0 where a pixel is nodata, NaN, masked or outside the file, and 1 elsewhere. It panics like
// In.
func (b *Block) Valid(name string) *ndarray.Array { return b.validOf(b.file(name)) }

// ValidList returns the array of Valid for each file of an input.
func (b *Block) ValidList(name string) []*ndarray.Array {
	var list []*ndarray.Array
	for _, i := range b.fileIndices(name) {
		list = append(list, b.validOf(i))
	}
	return list
}

// Path returns the name of an input's first file.
func (b *Block) Path(name string) string { return b.Paths(name)[0] }

// Paths returns the names of an input's files.
func (b *Block) Paths(name string) []string {
	var p []string
	for _, i := range b.fileIndices(name) {
		p = append(p, b.run.in.Files[i].Path)
	}
	return p
}

// Nodata returns the nodata value of a band (counted from 1 among those that the job reads) of an
// input's first file, and false if the band has none or a mask replaces it.
func (b *Block) Nodata(name string, band int) (ndarray.Scalar, bool) {
	f := b.run.in.Files[b.fileIndices(name)[0]]
	checkBand(name, band, len(f.Nodata))
	if n := f.Nodata[band-1]; n != nil {
		return *n, true
	}
	return ndarray.Scalar{}, false
}

// NewOut returns an array for SetOut, with this number of bands and the block's size, margin
// included. Its values are undefined.
func (b *Block) NewOut(t ndarray.DType, bands int) *ndarray.Array {
	return b.worker.array(t, bands, b.Rows(), b.Columns())
}

// SetOut sets the pixels of an output and takes ownership of the array. Its shape is (bands, rows,
// columns), with the margin, which is cut off, or without it. It panics if there is no output of
// that name or the shape differs.
func (b *Block) SetOut(name string, a *ndarray.Array) {
	if _, ok := b.run.job.Outputs[name]; !ok {
		panic(fmt.Sprintf("there is no output %q", name))
	}
	w := b.Window
	full := len(a.Shape) == 3 && a.Shape[1] == b.Rows() && a.Shape[2] == b.Columns()
	cut := len(a.Shape) == 3 && a.Shape[1] == w.Height && a.Shape[2] == w.Width
	if !full && !cut || a.Shape[0] < 1 {
		panic(fmt.Sprintf("output %q has the shape %v, not (bands, %d, %d)", name, a.Shape, b.Rows(), b.Columns()))
	}
	if size := a.Type.Size(); a.Strides[2] != size {
		panic(fmt.Sprintf("output %q has gaps between the pixels of a row", name))
	}
	if full && b.Overlap() > 0 {
		o := b.Overlap()
		a = &ndarray.Array{Type: a.Type, Data: a.Data, Strides: a.Strides, Shape: []int{a.Shape[0], w.Height, w.Width},
			Offset: a.Offset + o*a.Strides[1] + o*a.Strides[2]}
	}
	b.outs[name] = a
}

// Emit passes a value of this block to Job.Merge. A block may emit any number of values. Merge sees
// them after later blocks have reused the block's arrays, so a value must not share memory with
// them: emit sums and copies. Emit panics if value is an array or Job.Merge is nil.
func (b *Block) Emit(value any) {
	if _, shared := value.(*ndarray.Array); shared {
		panic("an array was emitted: its memory is used again before Merge sees it; emit a copy of its values")
	}
	if b.run.job.Merge == nil {
		panic("a value was emitted, but Job.Merge is nil")
	}
	b.emitted = append(b.emitted, value)
}

// Band returns one band of an input of one file, counted from 1, as a slice of rows*columns values
// that shares the array's memory. It panics if the pixels' type is not T; [As] converts any type.
func Band[T ndarray.Element](b *Block, input string, band int) []T {
	return ndarray.Slice[T](b.plane(input, band))
}

// Out makes an array of one band, passes it to SetOut, and returns its values, which the function
// fills in before it returns.
func Out[T ndarray.Element](b *Block, output string) []T {
	a := b.NewOut(ndarray.TypeOf[T](), 1)
	b.SetOut(output, a)
	return ndarray.Slice[T](a.At(0))
}

func (b *Block) file(name string) int {
	i := b.fileIndices(name)
	if b.run.in.Lists[name] {
		panic(fmt.Sprintf("input %q is a list: use InList", name))
	}
	return i[0]
}

// plane returns a band of an input of one file, counted from 1.
func (b *Block) plane(name string, band int) *ndarray.Array {
	a := b.In(name)
	checkBand(name, band, a.Shape[0])
	return a.At(band - 1)
}

// checkBand panics if an input with n bands has no such band.
func checkBand(name string, band, n int) {
	if band < 1 || band > n {
		panic(fmt.Sprintf("band %d of input %q, which has %s", band, name, units.Count(n, "band")))
	}
}

// fileIndices returns the indices of an input's files among those of the run.
func (b *Block) fileIndices(name string) []int {
	i, ok := b.run.fileIndex[name]
	if !ok {
		panic(fmt.Sprintf("there is no input %q", name))
	}
	return i
}

func (b *Block) validOf(i int) *ndarray.Array {
	if b.valid == nil {
		b.valid = make([]*ndarray.Array, len(b.data.files))
	}
	if b.valid[i] == nil {
		f, fd := b.run.in.Files[i], &b.data.files[i]
		v := ndarray.New(ndarray.Uint8, fd.array.Shape...)
		for l := range f.Layers {
			validity(v.At(l).Raw(), fd.array.At(l), f.Nodata[l], fd.maskOf(f, l))
		}
		b.valid[i] = v
	}
	return b.valid[i]
}
