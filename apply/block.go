package apply

import (
	"fmt"

	"leat/apply/internal/exec"
	"leat/apply/internal/resolve"
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
	exec        *exec.Block
	names       *names
}

// names finds the files and outputs of a job by their names, and holds what else a function sees of
// the job. It is only read.
type names struct {
	files           map[string][]int // by input, in the order of its list
	lists           map[string]bool
	outputs         map[string]int
	variables       map[string]int
	params          any
	merges, unscale bool
}

func newNames(job *resolve.Job) *names {
	n := &names{files: map[string][]int{}, lists: job.Inputs.Lists, outputs: map[string]int{},
		variables: map[string]int{}, params: job.Values.Function.Params, merges: job.Values.Function.Merges,
		unscale: job.Values.Controls.Unscale}
	for i, f := range job.Inputs.Files {
		n.files[f.Name] = append(n.files[f.Name], i)
	}
	for i, o := range job.Outputs {
		n.outputs[o.Name] = i
	}
	for i, name := range sortedKeys(job.Values.Variables) {
		n.variables[name] = i
	}
	return n
}

func newBlock(b *exec.Block, n *names) *Block { return &Block{Block: b.Block, exec: b, names: n} }

// Blocks returns how the grid of the run is divided into blocks: their number is its Count, and
// they are in Rows rows and Cols columns. Blocks are computed in any order.
func (b *Block) Blocks() block.Plan { return b.exec.Blocks() }

// Overlap returns the width of the margin in pixels, the same on each side.
func (b *Block) Overlap() int { return b.exec.Overlap() }

// Rows returns the height of the arrays, margin included.
func (b *Block) Rows() int { return b.exec.Rows() }

// Columns returns the width of the arrays, margin included.
func (b *Block) Columns() int { return b.exec.Columns() }

// Grid returns the grid of the whole run: size, transform and CRS.
func (b *Block) Grid() raster.Grid { return b.exec.Grid() }

// Transform returns the transform of the block's arrays: pixel (0, 0) is the upper left one of the
// margin.
func (b *Block) Transform() raster.Transform {
	return b.exec.Grid().Transform.Shift(b.Window.Col-b.Overlap(), b.Window.Row-b.Overlap())
}

// PixelSize returns the width and height of a pixel in units of the CRS, both positive.
func (b *Block) PixelSize() (width, height float64) {
	t := b.exec.Grid().Transform
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
func (b *Block) Params() any { return b.names.params }

// State returns what Job.Setup returned for this worker.
func (b *Block) State() any { return b.exec.State() }

// In returns the array of an input of one file. It panics if there is no such input, or if the
// input is a list.
func (b *Block) In(name string) *ndarray.Array {
	return b.exec.In(b.file(name))
}

// InList returns the arrays of an input, in the order of its files.
func (b *Block) InList(name string) []*ndarray.Array {
	var list []*ndarray.Array
	for _, i := range b.fileIndices(name) {
		list = append(list, b.exec.In(i))
	}
	return list
}

// Valid returns the valid pixels of an input of one file: an array of uint8 of the input's shape
// with 0 where a pixel is nodata, NaN, masked or outside the file, and 1 elsewhere. It panics like
// In.
func (b *Block) Valid(name string) *ndarray.Array { return b.exec.Valid(b.file(name)) }

// ValidList returns the array of Valid for each file of an input.
func (b *Block) ValidList(name string) []*ndarray.Array {
	var list []*ndarray.Array
	for _, i := range b.fileIndices(name) {
		list = append(list, b.exec.Valid(i))
	}
	return list
}

// Paths returns the names of an input's files.
func (b *Block) Paths(name string) []string {
	var p []string
	for _, i := range b.fileIndices(name) {
		p = append(p, b.exec.File(i).Path)
	}
	return p
}

// Nodata returns the nodata value of a band (counted from 1 among those that the job reads) of an
// input's first file, and false if the band has none or a mask replaces it.
func (b *Block) Nodata(name string, band int) (ndarray.Scalar, bool) {
	f := b.exec.File(b.fileIndices(name)[0])
	checkBand(name, band, len(f.Nodata))
	if n := f.Nodata[band-1]; n != nil {
		return *n, true
	}
	return ndarray.Scalar{}, false
}

// Variable returns the pixels of a variable. It panics if there is none of that name.
func (b *Block) Variable(name string) *ndarray.Array { return b.exec.Variable(b.variable(name)) }

// VariableValid returns the valid pixels of a variable as Valid does those of an input. Its memory
// is that of NewOut.
func (b *Block) VariableValid(name string) *ndarray.Array {
	return b.exec.VariableValid(b.variable(name))
}

func (b *Block) variable(name string) int {
	i, ok := b.names.variables[name]
	if !ok {
		panic(fmt.Sprintf("there is no variable %q", name))
	}
	return i
}

// NewOut returns an array for SetOut, with this number of bands and the block's size, margin
// included. Its values are undefined.
func (b *Block) NewOut(t ndarray.DType, bands int) *ndarray.Array {
	return b.exec.NewArray(t, bands)
}

// SetOut sets the pixels of an output and takes ownership of the array. Its shape is (bands, rows,
// columns), with the margin, which is cut off, or without it. It panics if there is no output of
// that name or the shape differs.
func (b *Block) SetOut(name string, a *ndarray.Array) {
	i, ok := b.names.outputs[name]
	if !ok {
		panic(fmt.Sprintf("there is no output %q", name))
	}
	b.exec.SetOut(i, a)
}

// Emit passes a value of this block to Job.Merge. A block may emit any number of values. Merge sees
// them after later blocks have reused the block's arrays, so a value must not share memory with
// them: emit sums and copies. Emit panics if value is an array or Job.Merge is nil.
func (b *Block) Emit(value any) {
	if _, shared := value.(*ndarray.Array); shared {
		panic("an array was emitted: its memory is used again before Merge sees it; emit a copy of its values")
	}
	if !b.names.merges {
		panic("a value was emitted, but Job.Merge is nil")
	}
	b.exec.Emit(value)
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
	if b.names.lists[name] {
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
	i, ok := b.names.files[name]
	if !ok {
		panic(fmt.Sprintf("there is no input %q", name))
	}
	return i
}
