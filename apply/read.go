package apply

import (
	"context"
	"fmt"
	"slices"

	"leat/block"
	"leat/ndarray"
	"leat/shm"
)

// blockData is the memory of one block's inputs. It is lent to a reader, passed to a worker with the block,
// and comes back when the function is done.
type blockData struct {
	block block.Block
	files []fileData // as inputs.files
	// region holds all of it where it lies in shared memory, which others find by memory; else nil.
	region []byte
	memory shm.Handle
}

// fileData is what one file has of a block, margin included.
type fileData struct {
	store []byte         // room for the largest block
	array *ndarray.Array // (layers, rows, columns) over store
	room  []byte         // rows*columns bytes when validity needs a mask
	mask  []byte         // over room: 0 where no pixel of any layer counts; nil: nodata and NaN alone decide
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
			d.files[i].room = make([]byte, places[i].mask)
		}
	}
	return d
}

// read fills d with block b of all files.
func (in *inputs) read(ctx context.Context, d *blockData, b block.Block, p block.Plan, margin block.Margin) error {
	d.block = b
	w := b.Window.Grow(p.Overlap)
	for i, f := range in.files {
		fd := &d.files[i]
		if len(f.layers) == 0 { // an input that no expression uses
			continue
		}
		fd.array = ndarray.Over(f.typ, fd.store, len(f.layers), w.Height, w.Width)
		fd.mask = nil
		if err := f.read(ctx, fd, w, p, margin); err != nil {
			if changed := f.unchanged(); changed != nil { // it is the reason
				err = changed
			}
			return fmt.Errorf("reading block %d of %s: %w", b.Number, f.path, err)
		}
	}
	return in.glance()
}

// read fills fd with the window w of the job's grid, which may reach beyond it.
func (f *inputFile) read(ctx context.Context, fd *fileData, w block.Window, p block.Plan, margin block.Margin) error {
	have := w.Intersect(f.extent())
	whole := have == w
	if !whole {
		f.fillAll(fd)
		fd.mask = fd.room[:w.Width*w.Height]
		clear(fd.mask)
		if have.Empty() {
			if margin != block.MarginNodata {
				f.foldMargin(fd, w, p, margin)
			}
			return nil
		}
	}
	size := f.typ.Size()
	view := &ndarray.Array{Type: f.typ, Data: fd.array.Data, Strides: fd.array.Strides,
		Shape:  []int{len(f.layers), have.Height, have.Width},
		Offset: ((have.Row-w.Row)*w.Width + have.Col - w.Col) * size}
	alpha, err := f.readPixels(ctx, view, have)
	if err != nil {
		return err
	}
	if err := f.readMask(ctx, fd, w, have, alpha); err != nil {
		return err
	}
	if !whole && margin != block.MarginNodata {
		f.foldMargin(fd, w, p, margin)
	}
	return nil
}

// readPixels fills view with a window of the job's grid that the file has. alpha is the mask that its alpha band makes where that came with them, else nil.
func (f *inputFile) readPixels(ctx context.Context, view *ndarray.Array, have block.Window) (alpha []byte, err error) {
	at := have.Shift(f.dc, f.dr)
	if f.warp == nil || f.alpha == 0 || f.info.Bands[f.alpha-1].Type != f.typ {
		return nil, f.src.Read(ctx, f.layers, at, view)
	}
	// Warped apart they would take twice the time.
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
	maskOf(alpha, all.At(n).Raw())
	return alpha, nil
}

// readMask sets the mask of the pixels that the file has; alpha is its own where that is known already.
func (f *inputFile) readMask(ctx context.Context, fd *fileData, w, have block.Window, alpha []byte) error {
	if !f.masked && fd.mask == nil {
		return nil
	}
	if f.masked && have == w {
		fd.mask = fd.room[:w.Width*w.Height]
		return f.ownMask(ctx, have, fd.mask, alpha)
	}
	rows := make([]byte, have.Width*have.Height)
	if f.masked {
		if err := f.ownMask(ctx, have, rows, alpha); err != nil {
			return err
		}
	} else {
		for i := range rows {
			rows[i] = 255
		}
	}
	for y := range have.Height {
		copy(fd.mask[(have.Row-w.Row+y)*w.Width+have.Col-w.Col:], rows[y*have.Width:(y+1)*have.Width])
	}
	return nil
}

// ownMask reads what the file itself says of its pixels.
func (f *inputFile) ownMask(ctx context.Context, w block.Window, dst, alpha []byte) error {
	if alpha != nil {
		copy(dst, alpha)
		return nil
	}
	w = w.Shift(f.dc, f.dr)
	if f.alpha > 0 {
		return f.alphaMask(ctx, w, dst)
	}
	return f.src.(interface {
		ReadMask(context.Context, block.Window, []byte) error
	}).ReadMask(ctx, w, dst)
}

// fillAll sets all pixels to the fill value of their layer.
func (f *inputFile) fillAll(fd *fileData) {
	for l := range f.layers {
		raw := fd.array.At(l).Raw()
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

// foldMargin gives the pixels of the margin that neither the grid nor the file has their stand-ins:
// along each axis a coordinate beyond both is folded back at the outer edge of the two, so that the
// result does not depend on how the grid is cut.
func (f *inputFile) foldMargin(fd *fileData, w block.Window, p block.Plan, margin block.Margin) {
	all := f.extent().Union(block.Window{Width: p.Width, Height: p.Height})
	if all.Contains(w) {
		return
	}
	cols, rows := make([]int, w.Width), make([]int, w.Height)
	for i := range cols {
		cols[i] = margin.Fold(w.Col+i, all.Col, all.Col+all.Width) - w.Col
	}
	for i := range rows {
		rows[i] = margin.Fold(w.Row+i, all.Row, all.Row+all.Height) - w.Row
	}
	for l := range f.layers {
		fold(fd.array.At(l).Raw(), w.Width, f.typ.Size(), cols, rows)
	}
	fold(fd.mask, w.Width, 1, cols, rows)
}

// fold copies, in rows of width elements of size bytes, to each place the element that stands in for
// it: first along rows, then whole rows.
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
