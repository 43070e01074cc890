package apply

import (
	"context"
	"fmt"
	"slices"

	"leat/block"
	"leat/ndarray"
	"leat/raster"
	"leat/shm"
)

// blockData is the memory of one block's inputs. A reader fills it and passes it to a worker with
// the block; it is reused when the function has returned.
type blockData struct {
	block block.Block
	files []fileData // same order as inputs.files
	// region is all of the memory if it is shared, and memory its handle; else nil.
	region []byte
	memory shm.Handle
}

// fileData is the data of one file in a block, margin included.
type fileData struct {
	// store has the size of the largest block.
	store []byte
	// array is (layers, rows, columns) over store.
	array *ndarray.Array
	// maskStore has rows*columns bytes for each of the file's mask planes, if there are any.
	maskStore []byte
	// mask is part of maskStore, plane after plane: 0 where a pixel is masked. nil: only nodata and
	// NaN count.
	mask []byte
}

func newBlockData(in *inputs, p block.Plan) *blockData {
	places, _ := placesOf(in, p)
	d := &blockData{files: make([]fileData, len(in.files))}
	for i, f := range in.files {
		if len(f.layers) == 0 {
			continue
		}
		d.files[i].store = ndarray.New(f.typ, places[i].pixels/f.typ.Size()).Raw()
		if places[i].mask > 0 {
			d.files[i].maskStore = make([]byte, places[i].mask)
		}
	}
	return d
}

// read fills d with block b of all files.
func (d *blockData) read(ctx context.Context, in *inputs, b block.Block, p block.Plan, margin block.Margin) error {
	d.block = b
	w := b.Window.Grow(p.Overlap)
	for i, f := range in.files {
		fd := &d.files[i]
		if len(f.layers) == 0 { // an input that no expression uses
			continue
		}
		fd.array = ndarray.FromBytes(f.typ, fd.store, len(f.layers), w.Height, w.Width)
		fd.mask = nil
		if err := fd.read(ctx, f, w, p, margin); err != nil {
			if changed := f.checkUnchanged(); changed != nil { // this is the cause
				err = changed
			}
			return fmt.Errorf("reading block %d of %s: %w", b.Number, f.path, err)
		}
	}
	return in.checkUnchangedSometimes()
}

// read fills d with the window w of the job's grid, which may extend beyond it.
func (d *fileData) read(ctx context.Context, f *inputFile, w block.Window, p block.Plan, margin block.Margin) error {
	have := w.Intersect(f.extent())
	whole := have == w
	if !whole || f.masked() {
		d.mask = d.maskStore[:w.Width*w.Height*len(f.planes)]
	}
	if !whole {
		d.fillAll(f)
		clear(d.mask)
		if have.Empty() {
			if margin != block.MarginNodata {
				d.foldMargin(f, w, p, margin)
			}
			return nil
		}
	}
	size := f.typ.Size()
	view := &ndarray.Array{Type: f.typ, Data: d.array.Data, Strides: d.array.Strides,
		Shape:  []int{len(f.layers), have.Height, have.Width},
		Offset: ((have.Row-w.Row)*w.Width + have.Col - w.Col) * size}
	alpha, err := readPixels(ctx, f, view, have)
	if err != nil {
		return err
	}
	if err := d.readMask(ctx, f, w, have, alpha); err != nil {
		return err
	}
	if !whole && margin != block.MarginNodata {
		d.foldMargin(f, w, p, margin)
	}
	return nil
}

// readPixels fills view with a window of the job's grid that lies inside the file. alpha is the
// mask from the file's alpha band if it was read with the pixels, else nil.
func readPixels(ctx context.Context, f *inputFile, view *ndarray.Array, have block.Window) (alpha []byte, err error) {
	at := have.Shift(f.colOffset, f.rowOffset)
	if f.warp == nil || f.alpha == 0 || f.info.Bands[f.alpha-1].Type != f.typ {
		return nil, f.src.Read(ctx, f.layers, at, view)
	}
	// Warping them separately would take twice the time.
	n := len(f.layers)
	all := ndarray.New(f.typ, n+1, have.Height, have.Width)
	if err := f.src.Read(ctx, append(slices.Clone(f.layers), f.alpha), at, all); err != nil {
		return nil, err
	}
	row := have.Width * f.typ.Size()
	for l := range n {
		from := all.At(l).Raw()
		for y := range have.Height {
			copy(view.Data[view.Offset+l*view.Strides[0]+y*view.Strides[1]:][:row], from[y*row:])
		}
	}
	alpha = make([]byte, have.Width*have.Height)
	raster.AlphaMask(all.At(n).Raw(), f.typ.Size(), alpha)
	return alpha, nil
}

// fillAll sets all pixels to the fill value of their layer.
func (d *fileData) fillAll(f *inputFile) {
	for l := range f.layers {
		raw := d.array.At(l).Raw()
		v := f.fill(l)
		if v.Bits == 0 {
			clear(raw)
			continue
		}
		size := f.typ.Size()
		clear(raw[:size]) // a complex pixel's imaginary part
		v.Put(raw)
		for n := size; n < len(raw); n *= 2 {
			copy(raw[n:], raw[:n])
		}
	}
}

// foldMargin fills the pixels of the margin that lie outside both the grid and the file. Along each
// axis it folds their coordinates back at the outer edge of the two, so that the result does not
// depend on the block size.
func (d *fileData) foldMargin(f *inputFile, w block.Window, p block.Plan, margin block.Margin) {
	cols, rows := foldSources(f, w, p, margin)
	if cols == nil {
		return
	}
	for l := range f.layers {
		fold(d.array.At(l).Raw(), w.Width, f.typ.Size(), cols, rows)
	}
	for n, at := w.Width*w.Height, 0; at < len(d.mask); at += n {
		fold(d.mask[at:at+n], w.Width, 1, cols, rows)
	}
}

// foldSources returns for each column and row of w the one to copy from; nil if w lies within grid
// and file.
func foldSources(f *inputFile, w block.Window, p block.Plan, margin block.Margin) (cols, rows []int) {
	all := f.extent().Union(block.Window{Width: p.Width, Height: p.Height})
	if all.Contains(w) {
		return nil, nil
	}
	cols, rows = make([]int, w.Width), make([]int, w.Height)
	for i := range cols {
		cols[i] = margin.Fold(w.Col+i, all.Col, all.Col+all.Width) - w.Col
	}
	for i := range rows {
		rows[i] = margin.Fold(w.Row+i, all.Row, all.Row+all.Height) - w.Row
	}
	return cols, rows
}

// fold copies elements of size bytes, in rows of width elements, from the columns and rows given:
// first along rows, then whole rows.
func fold(data []byte, width, size int, cols, rows []int) {
	for y, from := range rows {
		if from != y {
			continue
		}
		row := data[y*width*size : (y+1)*width*size]
		for x, from := range cols {
			if from != x {
				copy(row[x*size:(x+1)*size], row[from*size:(from+1)*size])
			}
		}
	}
	for y, from := range rows {
		if from != y {
			copy(data[y*width*size:(y+1)*width*size], data[from*width*size:(from+1)*width*size])
		}
	}
}

// maskOf returns the mask of a layer, nil if it has none.
func (d *fileData) maskOf(f *inputFile, layer int) []byte {
	if d.mask == nil {
		return nil
	}
	n := len(d.mask) / len(f.planes)
	return d.mask[f.planeOf[layer]*n:][:n]
}

// readMask sets the masks of the pixels inside the file; alpha is the file's alpha band if it is
// already known.
func (d *fileData) readMask(ctx context.Context, f *inputFile, w, have block.Window, alpha []byte) error {
	if d.mask == nil {
		return nil
	}
	n := len(d.mask) / len(f.planes)
	for i, s := range f.planes {
		plane := d.mask[i*n:][:n]
		rows := plane
		if have != w {
			rows = make([]byte, have.Width*have.Height)
		}
		if err := f.ReadMaskPlane(ctx, s, have.Shift(f.colOffset, f.rowOffset), rows, alpha); err != nil {
			return err
		}
		for y := 0; have != w && y < have.Height; y++ {
			copy(plane[(have.Row-w.Row+y)*w.Width+have.Col-w.Col:], rows[y*have.Width:(y+1)*have.Width])
		}
	}
	return nil
}
