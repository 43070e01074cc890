package apply

import (
	"fmt"

	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// Block is what a function sees of one block. It belongs to one call of the function and must not be
// used after it; so do the arrays that In, InList, Valid and NewOut give, whose memory is used again.
//
// All arrays have the shape (bands, rows, columns), also those of one band, and hold the margin:
// Rows = window height + 2*Overlap, Columns likewise.
type Block struct {
	block.Block // number, place in the grid of blocks, window without margin
	run         *run
	data        *blockData
	worker      *workplace
	outs        map[string]*ndarray.Array
	emitted     []any
	extras      []extra          // what the block gives besides pixels, by output
	valid       []*ndarray.Array // by file, made when asked for
}

// Total is the number of blocks of the run.
func (b *Block) Total() int { return b.run.plan.Blocks.Count() }

// First and Last tell the ends of the run in block order, which is not the order of computing.
func (b *Block) First() bool { return b.Number == 0 }

// Last reports whether this is the block with the highest number.
func (b *Block) Last() bool { return b.Number == b.Total()-1 }

// BlocksAcross and BlocksDown are the size of the grid of blocks.
func (b *Block) BlocksAcross() int { return b.run.plan.Blocks.Across() }

// BlocksDown is the number of rows of blocks.
func (b *Block) BlocksDown() int { return b.run.plan.Blocks.Down() }

// Overlap is the margin in pixels on each side.
func (b *Block) Overlap() int { return b.run.plan.Blocks.Overlap }

// Rows and Columns are the size of the arrays, margin included.
func (b *Block) Rows() int { return b.Window.Height + 2*b.Overlap() }

// Columns is the width of the arrays, margin included.
func (b *Block) Columns() int { return b.Window.Width + 2*b.Overlap() }

// Grid is the grid of the whole run: its size, transform and CRS (Grid().CRS.String() is its text).
func (b *Block) Grid() raster.Grid { return b.run.plan.Grid }

// Transform is that of the block's arrays: pixel (0, 0) is the upper left one of the margin.
func (b *Block) Transform() raster.Transform {
	return b.run.plan.Grid.Transform.Shift(b.Window.Col-b.Overlap(), b.Window.Row-b.Overlap())
}

// PixelSize is the width and height of a pixel in units of the CRS, both positive.
func (b *Block) PixelSize() (width, height float64) {
	t := b.run.plan.Grid.Transform
	return max(t[1], -t[1]), max(t[5], -t[5])
}

// Coordinates are the map coordinates of the pixels' centres: x of each column and y of each row, margin included.
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

// Pixel is the column and row, in the block's arrays, of the pixel that holds a map coordinate; they may lie
// outside the arrays.
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

// Params are the job's.
func (b *Block) Params() any { return b.run.job.Params }

// State is what Setup made for this worker.
func (b *Block) State() any { return b.worker.state }

// In is the array of an input of one file. It panics when there is no such input, or when it is a
// list.
func (b *Block) In(name string) *ndarray.Array {
	i := b.file(name)
	return b.data.files[i].array
}

// InList are the arrays of an input, in the order of its files.
func (b *Block) InList(name string) []*ndarray.Array {
	var list []*ndarray.Array
	for _, i := range b.fileIndices(name) {
		list = append(list, b.data.files[i].array)
	}
	return list
}

// Valid tells which pixels of an input count: an array of uint8 of the input's shape with 1 where a pixel is
// neither nodata, NaN, masked nor outside the file, else 0.
func (b *Block) Valid(name string) *ndarray.Array { return b.validOf(b.file(name)) }

// ValidList does it for each file of a list.
func (b *Block) ValidList(name string) []*ndarray.Array {
	var list []*ndarray.Array
	for _, i := range b.fileIndices(name) {
		list = append(list, b.validOf(i))
	}
	return list
}

// Path is the name of an input's first file, Paths those of all its files.
func (b *Block) Path(name string) string { return b.Paths(name)[0] }

// Paths are the names of an input's files.
func (b *Block) Paths(name string) []string {
	var p []string
	for _, i := range b.fileIndices(name) {
		p = append(p, b.run.in.files[i].path)
	}
	return p
}

// Nodata is the nodata value of a layer (counted from 0, as in the array) of an input's first file;
// false when it has none.
func (b *Block) Nodata(name string, layer int) (ndarray.Scalar, bool) {
	f := b.run.in.files[b.fileIndices(name)[0]]
	if layer < 0 || layer >= len(f.nodata) {
		panic(fmt.Sprintf("layer %d of input %q, which has %s", layer, name, count(len(f.nodata), "layer")))
	}
	if n := f.nodata[layer]; n != nil {
		return *n, true
	}
	return ndarray.Scalar{}, false
}

// NewOut returns an array of bands bands and the size of the block, margin included, for SetOut. Its
// values are whatever an earlier block left there.
func (b *Block) NewOut(t ndarray.DType, bands int) *ndarray.Array {
	return b.worker.array(t, bands, b.Rows(), b.Columns())
}

// SetOut gives an output its pixels and hands the array over. Its shape is (bands, rows, columns) with the
// margin, which is cut off, or without it. It panics when there is no output of that name or the
// shape is another.
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

// Emit passes a value of this block to Job.Merge. A block may emit several, or none. Merge sees it after the block's
// arrays were given to other blocks, so a value must not share memory with them: emit sums and copies. An array is
// refused by a panic.
func (b *Block) Emit(value any) {
	if _, shared := value.(*ndarray.Array); shared {
		panic("an array was emitted: its memory is used again before Merge sees it; emit a copy of its values")
	}
	if b.run.job.Merge == nil {
		panic("a value was emitted, but Job.Merge is nil")
	}
	b.emitted = append(b.emitted, value)
}

// Band is one band of an input of one file, counted from 0, as a slice of rows*columns values that share
// the array's memory. It panics when the type is another.
func Band[T ndarray.Element](b *Block, input string, band int) []T {
	return ndarray.Slice[T](b.In(input).At(band))
}

// Out makes an array of one band for an output, hands it over, and returns its values to be filled in before the
// function returns.
func Out[T ndarray.Element](b *Block, output string) []T {
	a := b.NewOut(ndarray.TypeOf[T](), 1)
	b.SetOut(output, a)
	return ndarray.Slice[T](a.At(0))
}

func (b *Block) file(name string) int {
	i := b.fileIndices(name)
	if b.run.in.lists[name] {
		panic(fmt.Sprintf("input %q is a list: use InList", name))
	}
	return i[0]
}

// fileIndices are the places of an input's files among those of the run.
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
		f, fd := b.run.in.files[i], &b.data.files[i]
		v := ndarray.New(ndarray.Uint8, fd.array.Shape...)
		for l := range f.layers {
			validity(v.At(l).Raw(), fd.array.At(l), f.nodata[l], fd.mask)
		}
		b.valid[i] = v
	}
	return b.valid[i]
}
