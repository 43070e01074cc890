package exec

import (
	"fmt"

	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// Block is one block while a function computes it. apply.Block, which users see, gives names to its
// files and outputs. Here they are numbers: their places in Inputs.Files and Outputs of
// resolve.Job.
type Block struct {
	block.Block
	state   *computeState
	data    *blockData
	outs    []*ndarray.Array // by output; nil before SetOut
	emitted []any
	// variables are those of the function, in the order of the job.
	variables []variable
	extras    []spool.Extra    // results of the block other than pixels, by output
	valid     []*ndarray.Array // by file, computed on demand
}

// Blocks returns all blocks of the run.
func (b *Block) Blocks() block.Plan { return b.state.shared.blocks }

// Grid returns the grid of the run.
func (b *Block) Grid() raster.Grid { return b.state.shared.grid }

// Overlap returns the width of the function's margin in pixels.
func (b *Block) Overlap() int {
	if b.state.shared.focal {
		return 0
	}
	return b.state.shared.blocks.Overlap
}

// OutputBytes returns how much memory the block's outputs may take if a function in another process
// makes them.
func (b *Block) OutputBytes() int64 { return b.state.shared.outputBytes }

// Rows returns the height of the arrays, margin included.
func (b *Block) Rows() int { return b.Window.Height + 2*b.Overlap() }

// Columns returns the width of the arrays, margin included.
func (b *Block) Columns() int { return b.Window.Width + 2*b.Overlap() }

// State returns what Setup returned for this worker.
func (b *Block) State() any { return b.state.state }

// File returns a file of the inputs.
func (b *Block) File(i int) *resolve.File { return b.state.shared.files[i] }

// In returns the pixels of a file: (layers, rows, columns).
func (b *Block) In(file int) *ndarray.Array { return b.data.files[file].array }

// Valid returns an array of the file's shape: 0 where a pixel is nodata, NaN, masked or outside the
// file, and 1 elsewhere.
func (b *Block) Valid(file int) *ndarray.Array {
	if b.valid == nil {
		b.valid = make([]*ndarray.Array, len(b.data.files))
	}
	if b.valid[file] == nil {
		f, fd := b.File(file), &b.data.files[file]
		v := ndarray.New(ndarray.Uint8, fd.array.Shape...)
		for l := range f.Layers {
			validity(v.At(l).Raw(), fd.array.At(l), f.Nodata[l], fd.maskOf(f, l))
		}
		b.valid[file] = v
	}
	return b.valid[file]
}

// NewArray returns an array of bands with the block's size, margin included. Its values are
// undefined, and later blocks reuse its memory.
func (b *Block) NewArray(t ndarray.DType, bands int) *ndarray.Array {
	return b.state.array(t, bands, b.Rows(), b.Columns())
}

// SetOut sets the pixels of an output, with the margin, which is cut off, or without it. It panics
// if the shape is another one.
func (b *Block) SetOut(output int, a *ndarray.Array) {
	name, w := b.state.shared.writers[output].Name, b.Window
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
	b.outs[output] = a
}

// variable holds the pixels of a variable.
type variable struct {
	pixels *ndarray.Array
	nodata *ndarray.Scalar // nil if all pixels are valid
}

// Variable returns the pixels of a variable: (bands, rows, columns).
func (b *Block) Variable(i int) *ndarray.Array { return b.variables[i].pixels }

// VariableValid returns an array of the variable's shape: 0 where a pixel is not valid, 1
// elsewhere.
func (b *Block) VariableValid(i int) *ndarray.Array {
	v := &b.variables[i]
	valid := b.NewArray(ndarray.Uint8, v.pixels.Shape[0])
	for band := range v.pixels.Shape[0] {
		validity(valid.At(band).Raw(), v.pixels.At(band), v.nodata, nil)
	}
	return valid
}

// Emit adds a value for Merge.
func (b *Block) Emit(value any) { b.emitted = append(b.emitted, value) }
