package exec

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/resolve"
	"leat/block"
	"leat/internal/driver"
	"leat/internal/expr"
	"leat/internal/scalarvalue"
	"leat/ndarray"
	"leat/shm"
)

// blockData is the memory of one block's inputs. A reader fills it and passes it to a worker with
// the block; it is reused when the function has returned.
type blockData struct {
	block block.Block
	files []fileData // in the order of resolve.Inputs.Files
	// region is all of the memory if it is shared, and memory its handle; else nil.
	region []byte
	memory shm.Handle
	// shared is the array of region, nil if no other process can map it. private means that others
	// use the memory too, so that a function must map it privately.
	shared  *shm.Array
	private bool
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

// blockReader reads blocks of the inputs, in the process of the run or in a worker process.
type blockReader struct {
	inputs    *resolve.Inputs
	blocks    block.Plan
	margin    block.Margin
	unchanged resolve.ChangeChecker
	// extra bounds how many files that may wait are read at once, besides one by each reader.
	extra chan struct{}
	// shared has the blocks that are being read, unless extra readers take part.
	shared sharedReads
}

func newBlockReader(in *resolve.Inputs, blocks block.Plan, margin block.Margin, extra int) *blockReader {
	return &blockReader{inputs: in, blocks: blocks, margin: margin, unchanged: resolve.ChangeChecker{Inputs: in},
		extra: make(chan struct{}, extra)}
}

// newBlock returns memory for any block.
func (r *blockReader) newBlock() (*blockData, error) {
	places, _ := placesOf(r.inputs, r.blocks)
	d := &blockData{files: make([]fileData, len(r.inputs.Files))}
	for i, f := range r.inputs.Files {
		if len(f.Layers) == 0 {
			continue
		}
		d.files[i].store = ndarray.New(f.Type, places[i].pixels/f.Type.Size()).Raw()
		if places[i].mask > 0 {
			d.files[i].maskStore = make([]byte, places[i].mask)
		}
	}
	return d, nil
}

// read fills d with block b of all files.
func (r *blockReader) read(ctx context.Context, d *blockData, b block.Block) error {
	d.block = b
	var err error
	if cap(r.extra) == 0 {
		err = r.shared.run(b.Number, len(r.inputs.Files), func(i int) error { return r.readFile(ctx, d, i) })
	} else {
		err = r.readTogether(ctx, d)
	}
	if err != nil {
		return err
	}
	return r.unchanged.Check()
}

// readTogether reads files that may wait in goroutines, as many as extra allows, and meanwhile the
// others one after another.
func (r *blockReader) readTogether(ctx context.Context, d *blockData) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, f := range r.inputs.Files {
		if f.MayWait() {
			select {
			case r.extra <- struct{}{}:
				g.Go(func() error {
					defer func() { <-r.extra }()
					return r.readFile(ctx, d, i)
				})
				continue
			default:
			}
		}
		if err := r.readFile(ctx, d, i); err != nil {
			g.Go(func() error { return err })
			break
		}
	}
	return g.Wait()
}

// readFile fills d with file i of its block.
func (r *blockReader) readFile(ctx context.Context, d *blockData, i int) error {
	f, fd := r.inputs.Files[i], &d.files[i]
	if len(f.Layers) == 0 { // an input that no expression uses
		return nil
	}
	w := d.block.Window.Grow(r.blocks.Overlap)
	fd.array = ndarray.FromBytes(f.Type, fd.store, len(f.Layers), w.Height, w.Width)
	fd.mask = nil
	err := fd.read(ctx, f, w, r.blocks, r.margin)
	if err == nil {
		return nil
	}
	if changed := f.CheckUnchanged(); changed != nil { // this is the cause
		err = changed
	}
	return fmt.Errorf("reading block %d of %s: %w", d.block.Number, f.Path, err)
}

// read fills d with the window w of the job's grid, which may extend beyond it.
func (d *fileData) read(ctx context.Context, f *resolve.File, w block.Window, p block.Plan, margin block.Margin) error {
	have := w.Intersect(f.Extent())
	whole := have == w
	if !whole || f.Masked() {
		d.mask = d.maskStore[:w.Width*w.Height*len(f.Planes)]
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
	size := f.Type.Size()
	view := &ndarray.Array{Type: f.Type, Data: d.array.Data, Strides: d.array.Strides,
		Shape:  []int{len(f.Layers), have.Height, have.Width},
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
func readPixels(ctx context.Context, f *resolve.File, view *ndarray.Array,
	have block.Window) (alpha []byte, err error) {
	at := have.Shift(f.ColOffset, f.RowOffset)
	if f.Warp == nil || f.Alpha == 0 || f.Info.Bands[f.Alpha-1].Type != f.Type {
		return nil, f.Source.Read(ctx, f.Layers, at, view)
	}
	// Warping them separately would take twice the time.
	n := len(f.Layers)
	all := ndarray.New(f.Type, n+1, have.Height, have.Width)
	if err := f.Source.Read(ctx, append(slices.Clone(f.Layers), f.Alpha), at, all); err != nil {
		return nil, err
	}
	row := have.Width * f.Type.Size()
	for l := range n {
		from := all.At(l).Raw()
		for y := range have.Height {
			copy(view.Data[view.Offset+l*view.Strides[0]+y*view.Strides[1]:][:row], from[y*row:])
		}
	}
	alpha = make([]byte, have.Width*have.Height)
	driver.AlphaMask(all.At(n).Raw(), f.Type.Size(), alpha)
	return alpha, nil
}

// fillAll sets all pixels to the fill value of their layer.
func (d *fileData) fillAll(f *resolve.File) {
	for l := range f.Layers {
		raw := d.array.At(l).Raw()
		v := f.Fill(l)
		if v.Bits == 0 {
			clear(raw)
			continue
		}
		size := f.Type.Size()
		clear(raw[:size]) // a complex pixel's imaginary part
		scalarvalue.Put(v, raw)
		for n := size; n < len(raw); n *= 2 {
			copy(raw[n:], raw[:n])
		}
	}
}

// foldMargin fills the pixels of the margin that lie outside both the grid and the file. Along each
// axis it folds their coordinates back at the outer edge of the two, so that the result does not
// depend on the block size.
func (d *fileData) foldMargin(f *resolve.File, w block.Window, p block.Plan, margin block.Margin) {
	cols, rows := foldSources(f, w, p, margin)
	if cols == nil {
		return
	}
	for l := range f.Layers {
		fold(d.array.At(l).Raw(), w.Width, f.Type.Size(), cols, rows)
	}
	for n, at := w.Width*w.Height, 0; at < len(d.mask); at += n {
		fold(d.mask[at:at+n], w.Width, 1, cols, rows)
	}
}

// foldSources returns for each column and row of w the one to copy from; nil if w lies within grid
// and file.
func foldSources(f *resolve.File, w block.Window, p block.Plan, margin block.Margin) (cols, rows []int) {
	all := f.Extent().Union(block.Window{Width: p.Width, Height: p.Height})
	if all.Contains(w) {
		return nil, nil
	}
	cols, rows = make([]int, w.Width), make([]int, w.Height)
	for i := range cols {
		cols[i] = expr.Fold(margin, w.Col+i, all.Col, all.Col+all.Width) - w.Col
	}
	for i := range rows {
		rows[i] = expr.Fold(margin, w.Row+i, all.Row, all.Row+all.Height) - w.Row
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
func (d *fileData) maskOf(f *resolve.File, layer int) []byte {
	if d.mask == nil {
		return nil
	}
	n := len(d.mask) / len(f.Planes)
	return d.mask[f.PlaneOf[layer]*n:][:n]
}

// readMask sets the masks of the pixels inside the file; alpha is the file's alpha band if it is
// already known.
func (d *fileData) readMask(ctx context.Context, f *resolve.File, w, have block.Window, alpha []byte) error {
	if d.mask == nil {
		return nil
	}
	n := len(d.mask) / len(f.Planes)
	for i, s := range f.Planes {
		plane := d.mask[i*n:][:n]
		rows := plane
		if have != w {
			rows = make([]byte, have.Width*have.Height)
		}
		if err := f.ReadMaskPlane(ctx, s, have.Shift(f.ColOffset, f.RowOffset), rows, alpha); err != nil {
			return err
		}
		for y := 0; have != w && y < have.Height; y++ {
			copy(plane[(have.Row-w.Row+y)*w.Width+have.Col-w.Col:], rows[y*have.Width:(y+1)*have.Width])
		}
	}
	return nil
}
