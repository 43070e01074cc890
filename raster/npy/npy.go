// Package npy reads NumPy's .npy files as rasters: arrays of (rows, columns) and of (bands, rows, columns), for
// pixels that are not maps. The type to know is [File]; [Open] gives one.
//
// It reads by pread and keeps no pixels; nothing is georeferenced and nothing is nodata.
package npy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"leat/ndarray"
	"leat/raster"
)

// File is an open .npy file, a raster.Source. Read may be called by many goroutines at once.
type File struct {
	info   raster.Info
	r      io.ReaderAt
	stored ndarray.DType
	start  int64 // of the elements
	swap   bool
	// Elements from one band, row and column to the next.
	band, row, col int64
}

var _ raster.Source = (*File)(nil)

// Open opens the .npy file at path, C or Fortran order, either byte order. An array of two dimensions
// has one band. The error wraps raster.ErrFormat when it is no .npy or is cut short, raster.ErrUnsupported
// when its elements are not numbers or it has another number of dimensions, or the system's error.
// float16 elements are read as float32.
func Open(path string) (*File, error) {
	// The kind is looked at first: opening a pipe would wait for its other end.
	st, err := os.Stat(path)
	switch {
	case err != nil:
	case st.IsDir():
		err = fmt.Errorf("is a directory; name the file in it (%w)", raster.ErrFormat)
	case !st.Mode().IsRegular():
		err = fmt.Errorf("is not a plain file, which a raster must be (%w)", raster.ErrFormat)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if st, err = f.Stat(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return OpenAt(f, st.Size(), path)
}

// OpenAt is Open for a file of size bytes that is read through r, which many goroutines may use at once; name is the path for
// messages and Info. The File closes r where it is an io.Closer, also when OpenAt fails. Where r is a [raster.Fetcher] each
// read tells it first what it will take.
func OpenAt(r io.ReaderAt, size int64, name string) (*File, error) {
	n, err := open(r, size, name)
	if err != nil {
		return nil, errors.Join(err, closeAt(r))
	}
	return n, nil
}

// closeAt closes r where it can be.
func closeAt(r io.ReaderAt) error {
	if c, ok := r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func open(f io.ReaderAt, fileBytes int64, path string) (*File, error) {
	if fileBytes == 0 {
		return nil, fmt.Errorf("%s: the file is empty (%w)", path, raster.ErrFormat)
	}
	h, err := readHeader(f)
	switch {
	case errors.Is(err, ndarray.ErrNPYUnsupported):
		return nil, fmt.Errorf("%s: %v (%w)", path, err, raster.ErrUnsupported)
	case errors.Is(err, ndarray.ErrNPYFormat):
		return nil, fmt.Errorf("%s: %v; leat reads GeoTIFF and .npy (%w)", path, err, raster.ErrFormat)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	n := &File{r: f, stored: h.Type, start: int64(h.DataOffset)}
	shape := h.Shape
	switch len(shape) {
	case 2:
		shape = []int{1, shape[0], shape[1]}
	case 3:
	default:
		return nil, fmt.Errorf("%s: its array has %d dimensions; leat reads (rows, columns) and (bands, rows, columns): save it with a.reshape(...) (%w)", path, len(shape), raster.ErrUnsupported)
	}
	bands, height, width := int64(shape[0]), int64(shape[1]), int64(shape[2])
	if bands == 0 || height == 0 || width == 0 {
		return nil, fmt.Errorf("%s: its array of shape %v has no pixels (%w)", path, h.Shape, raster.ErrFormat)
	}
	if bands > 1<<16 {
		return nil, fmt.Errorf("%s: its array of shape %v has more than 65536 bands; leat takes the first dimension for bands: save it with a.transpose(...) (%w)", path, h.Shape, raster.ErrUnsupported)
	}
	if need := bands * height * width * int64(h.Type.Size()); need > fileBytes-n.start {
		return nil, fmt.Errorf("%s: its array of shape %v needs %d bytes after its header, the file has %d in all: it was cut short; fetch or write it again (%w)", path, h.Shape, need, fileBytes, raster.ErrFormat)
	}
	n.band, n.row, n.col = height*width, width, 1
	if h.Fortran {
		n.band, n.row, n.col = 1, bands, bands*height
	}
	nativeBig := binary.NativeEndian.Uint16([]byte{0, 1}) == 1
	n.swap = h.Type.Size() > 1 && h.BigEndian != nativeBig
	n.info = raster.Info{
		Path: path, Driver: "npy", FileBytes: fileBytes,
		Grid:      raster.Grid{Width: shape[2], Height: shape[1], Transform: raster.Identity},
		TileWidth: shape[2], TileHeight: 1, Interleave: "band", Compression: "none", Predictor: 1, ByteOrder: "little",
	}
	if h.BigEndian || h.Type.Size() == 1 && nativeBig {
		n.info.ByteOrder = "big"
	}
	if h.Fortran {
		n.info.TileWidth, n.info.TileHeight = 1, shape[1]
		if bands > 1 {
			n.info.Interleave = "pixel"
		}
	}
	b := raster.Band{Type: h.Type, Scale: 1, Color: raster.ColorUndefined}
	if h.Type == ndarray.Float16 {
		b.Type, b.Stored = ndarray.Float32, "float16"
	}
	if bands == 1 {
		b.Color = raster.ColorGray
	}
	for range bands {
		n.info.Bands = append(n.info.Bands, b)
	}
	return n, nil
}

// readHeader reads as much of f as its header takes.
func readHeader(f io.ReaderAt) (ndarray.NPYHeader, error) {
	var prefix [ndarray.NPYPrefix]byte
	k, err := f.ReadAt(prefix[:], 0)
	if err != nil && err != io.EOF {
		return ndarray.NPYHeader{}, err
	}
	size, err := ndarray.NPYHeaderSize(prefix[:k])
	if err != nil {
		return ndarray.NPYHeader{}, err
	}
	b := make([]byte, size)
	if k, err = f.ReadAt(b, 0); err != nil && err != io.EOF {
		return ndarray.NPYHeader{}, err
	}
	return ndarray.ParseNPYHeader(b[:k])
}

// Info describes the raster.
func (n *File) Info() *raster.Info { return &n.info }

// Close closes the file.
func (n *File) Close() error { return closeAt(n.r) }

// Read implements raster.Source.
func (n *File) Read(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if err := n.check(bands, w, dst); err != nil {
		return err
	}
	if w.Empty() {
		return ctx.Err()
	}
	if far, ok := n.r.(raster.Fetcher); ok {
		ranges, err := n.Ranges(ctx, bands, w, false)
		if err != nil {
			return err
		}
		defer far.Fetch(ranges)()
	}
	if n.col == 1 {
		return n.readRows(ctx, bands, w, dst)
	}
	return n.readColumns(ctx, bands, w, dst)
}

func (n *File) check(bands []int, w raster.Window, dst *ndarray.Array) error {
	name, typ, g := n.info.Path, n.info.Bands[0].Type, n.info.Grid
	switch {
	case dst == nil:
		return fmt.Errorf("%s: read into no array", name)
	case dst.Type != typ:
		return fmt.Errorf("%s: its pixels are %v, the array to fill is of %v", name, typ, dst.Type)
	case len(dst.Shape) != 3 || len(dst.Strides) != 3 || dst.Shape[0] != len(bands) || dst.Shape[1] != w.Height || dst.Shape[2] != w.Width:
		return fmt.Errorf("%s: the array to fill has shape %v, not (%d, %d, %d)", name, dst.Shape, len(bands), w.Height, w.Width)
	case w.Width < 0 || w.Height < 0 || !g.Window().Contains(w):
		return fmt.Errorf("%s: window %v is not inside the raster of %d x %d pixels", name, w, g.Width, g.Height)
	case w.Width > 1 && dst.Strides[2] != typ.Size():
		return fmt.Errorf("%s: the rows of the array to fill have gaps", name)
	}
	for _, b := range bands {
		if b < 1 || b > len(n.info.Bands) {
			return fmt.Errorf("%s: band %d asked for, it has %d", name, b, len(n.info.Bands))
		}
	}
	return nil
}

// rowsAtOnce is how many rows are read between looks at the context.
const rowsAtOnce = 256

// readRows reads an array in C order: rows that follow each other in file and memory at once.
func (n *File) readRows(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	size := int64(n.stored.Size())
	out := dst.Type.Size()
	step := 1
	if w.Width == n.info.Grid.Width && (dst.Strides[1] == w.Width*out || w.Height == 1) {
		step = rowsAtOnce
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for i, b := range bands {
		for y := 0; y < w.Height; y += step {
			if y%rowsAtOnce == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			count := w.Width * min(step, w.Height-y)
			at := (int64(b-1)*n.band + int64(w.Row+y)*n.row + int64(w.Col)) * size
			from := dst.Offset + i*dst.Strides[0] + y*dst.Strides[1]
			row := dst.Data[from : from+count*out]
			if n.stored != ndarray.Float16 {
				if err := n.readAt(row, at); err != nil {
					return err
				}
				continue
			}
			half := grown(buf, count*2)
			if err := n.readAt(half, at); err != nil {
				return err
			}
			widen(ndarray.OfBytes[float32](row), half, 2)
		}
	}
	return nil
}

// readColumns reads an array in Fortran order: one column of all bands at a time, of which rows and bands are
// picked.
func (n *File) readColumns(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	size := n.stored.Size()
	out := dst.Type.Size()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	step := int(n.row) * size
	for x := range w.Width {
		if x%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		col := grown(buf, w.Height*step)
		if err := n.readAt(col, (int64(w.Col+x)*n.col+int64(w.Row)*n.row)*int64(size)); err != nil {
			return err
		}
		for i, b := range bands {
			src := col[(b-1)*size:]
			at := dst.Offset + i*dst.Strides[0] + x*out
			for y := range w.Height {
				p := dst.Data[at+y*dst.Strides[1]:][:out]
				if n.stored == ndarray.Float16 {
					widen(ndarray.OfBytes[float32](p), src[y*step:], 2)
				} else {
					copy(p, src[y*step:][:size])
				}
			}
		}
	}
	return nil
}

// widen turns every step-th byte pair of src into a float32.
func widen(dst []float32, src []byte, step int) {
	for i := range dst {
		dst[i] = ndarray.Float16ToFloat32(binary.NativeEndian.Uint16(src[i*step:]))
	}
}

// readAt fills p with elements, from byte at of the first one on, in the machine's order.
func (n *File) readAt(p []byte, at int64) error {
	if k, err := n.r.ReadAt(p, n.start+at); k < len(p) {
		if err == io.EOF {
			return fmt.Errorf("%s: it ends at byte %d: it was cut short while open; fetch or write it again (%w)", n.info.Path, n.start+at+int64(k), raster.ErrFormat)
		}
		if strings.Contains(err.Error(), n.info.Path) { // a store's, which says all
			return err
		}
		return fmt.Errorf("%s: reading at byte %d: %w", n.info.Path, n.start+at, err)
	}
	if !n.swap {
		return nil
	}
	word := n.stored.Size()
	if n.stored.IsComplex() {
		word /= 2
	}
	for ; len(p) >= word; p = p[word:] {
		switch word {
		case 2:
			binary.BigEndian.PutUint16(p, binary.LittleEndian.Uint16(p))
		case 4:
			binary.BigEndian.PutUint32(p, binary.LittleEndian.Uint32(p))
		case 8:
			binary.BigEndian.PutUint64(p, binary.LittleEndian.Uint64(p))
		}
	}
	return nil
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// grown returns n bytes of buf, enlarged where it is smaller.
func grown(buf *[]byte, n int) []byte {
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	return (*buf)[:n]
}
