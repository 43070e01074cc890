package npy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"leat/internal/driver"
	"leat/ndarray"
	"leat/raster"
)

// File is an open .npy file. It is a raster.Source; Read may be called concurrently.
type File struct {
	info   raster.Info
	r      io.ReaderAt
	stored ndarray.DType // uint8 for truth values
	truth  bool          // elements are truth values
	start  int64         // offset of the first element
	swap   bool
	// Distances, in elements, between bands, rows and columns.
	band, row, col int64
}

var _ raster.Source = (*File)(nil)

// Open opens the .npy file at path, in C or Fortran order and either byte order. An array of two
// dimensions has one band. float16 elements are read as float32, and bool elements as uint8, 1 for
// every byte but 0, as NumPy's astype converts them. The error wraps raster.ErrFormat when the file
// is not a .npy file or is cut short, raster.ErrUnsupported when its elements are neither numbers
// nor bool or it has neither two nor three dimensions, or else the system's error.
func Open(path string) (*File, error) {
	f, size, err := driver.Open(path)
	if err != nil {
		return nil, err
	}
	return OpenAt(f, size, path)
}

// OpenAt is Open for a file of size bytes that is read through r, which must allow concurrent
// reads; name is the path in messages and in Info. The File closes r if it is an io.Closer, also
// when OpenAt fails. If r is a [raster.Prefetcher], each read first calls its Fetch.
func OpenAt(r io.ReaderAt, size int64, name string) (*File, error) {
	n, err := open(r, size, name)
	if err != nil {
		return nil, errors.Join(err, driver.Close(r))
	}
	return n, nil
}

func open(f io.ReaderAt, fileBytes int64, path string) (*File, error) {
	if fileBytes == 0 {
		return nil, fmt.Errorf("%s: the file is empty (%w)", path, raster.ErrFormat)
	}
	h, err := readHeader(f)
	switch {
	case errors.Is(err, ErrUnsupported):
		return nil, fmt.Errorf("%s: %v (%w)", path, err, raster.ErrUnsupported)
	case errors.Is(err, ErrFormat):
		return nil, fmt.Errorf("%s: %v (%w)", path, err, raster.ErrFormat)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	stored, truth := h.Elem.DType(), h.Elem.Equal(elemBool)
	if truth {
		stored = ndarray.Uint8
	}
	if !stored.Valid() {
		return nil, fmt.Errorf("%s: elements are %v, expected numbers or bool (%w)", path, h.Elem, raster.ErrUnsupported)
	}
	n := &File{r: f, stored: stored, truth: truth, start: int64(h.DataOffset)}
	shape := h.Shape
	switch len(shape) {
	case 2:
		shape = []int{1, shape[0], shape[1]}
	case 3:
	default:
		return nil, fmt.Errorf("%s: array has %d dimensions, expected (rows, columns) or (bands, rows, columns) (%w)", path,
			len(shape), raster.ErrUnsupported)
	}
	bands, height, width := int64(shape[0]), int64(shape[1]), int64(shape[2])
	if bands == 0 || height == 0 || width == 0 {
		return nil, fmt.Errorf("%s: array of shape %v has no pixels (%w)", path, h.Shape, raster.ErrFormat)
	}
	if bands > 1<<16 {
		return nil, fmt.Errorf("%s: array of shape %v has more than 65536 bands, its first dimension (%w)", path, h.Shape,
			raster.ErrUnsupported)
	}
	if need := bands * height * width * int64(stored.Size()); need > fileBytes-n.start {
		return nil, fmt.Errorf("%s: file cut short: array of shape %v needs %d bytes from byte %d, file has %d bytes (%w)",
			path, h.Shape, need, n.start, fileBytes, raster.ErrFormat)
	}
	n.band, n.row, n.col = height*width, width, 1
	if h.Fortran {
		n.band, n.row, n.col = 1, bands, bands*height
	}
	n.swap = stored.Size() > 1 && h.BigEndian != nativeBigEndian()
	n.info = raster.Info{
		Path: path, Driver: "npy", FileBytes: fileBytes,
		Grid:      raster.Grid{Width: shape[2], Height: shape[1], Transform: raster.Identity},
		TileWidth: shape[2], TileHeight: 1, Interleave: "band", Compression: "none", Predictor: 1, ByteOrder: "little",
	}
	if h.BigEndian || stored.Size() == 1 && nativeBigEndian() {
		n.info.ByteOrder = "big"
	}
	if h.Fortran {
		n.info.TileWidth, n.info.TileHeight = 1, shape[1]
		if bands > 1 {
			n.info.Interleave = "pixel"
		}
	}
	b := raster.Band{Type: stored, Scale: 1, Color: raster.ColorUndefined}
	switch {
	case stored == ndarray.Float16:
		b.Type, b.Stored = ndarray.Float32, "float16"
	case truth:
		b.Stored = "bool"
	}
	if bands == 1 {
		b.Color = raster.ColorGray
	}
	for range bands {
		n.info.Bands = append(n.info.Bands, b)
	}
	return n, nil
}

// readHeader reads and parses the header of f.
func readHeader(f io.ReaderAt) (Header, error) {
	var prefix [prefixSize]byte
	k, err := f.ReadAt(prefix[:], 0)
	if err != nil && err != io.EOF {
		return Header{}, err
	}
	size, err := headerSize(prefix[:k])
	if err != nil {
		return Header{}, err
	}
	b := make([]byte, size)
	if k, err = f.ReadAt(b, 0); err != nil && err != io.EOF {
		return Header{}, err
	}
	return ParseHeader(b[:k])
}

// Info returns the description of the raster.
func (n *File) Info() *raster.Info { return &n.info }

// Close closes the file.
func (n *File) Close() error { return driver.Close(n.r) }

// Read implements raster.Source.
func (n *File) Read(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if err := driver.CheckRead(&n.info, bands, w, dst); err != nil {
		return err
	}
	if w.Empty() {
		return ctx.Err()
	}
	if prefetcher, ok := n.r.(raster.Prefetcher); ok {
		ranges, err := n.Ranges(ctx, bands, w, false)
		if err != nil {
			return err
		}
		defer prefetcher.Fetch(ranges, nil)()
	}
	if n.col == 1 {
		return n.readRows(ctx, bands, w, dst)
	}
	return n.readColumns(ctx, bands, w, dst)
}

// rowsAtOnce is the number of rows read between checks of the context.
const rowsAtOnce = 256

// readRows reads an array in C order. It reads rows that are adjacent in file and memory together.
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
			widen(ndarray.Cast[float32](row), half, 2)
		}
	}
	return nil
}

// readColumns reads an array in Fortran order: one column of all bands at a time, from which it
// copies the rows and bands.
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
					widen(ndarray.Cast[float32](p), src[y*step:], 2)
				} else {
					copy(p, src[y*step:][:size])
				}
			}
		}
	}
	return nil
}

// widen converts every step-th pair of bytes of src to a float32.
func widen(dst []float32, src []byte, step int) {
	for i := range dst {
		dst[i] = ndarray.Float16ToFloat32(binary.NativeEndian.Uint16(src[i*step:]))
	}
}

// normalize makes every byte but 0 a 1. NumPy writes 0 and 1, but views of other arrays as bool
// have other bytes, which count as true.
func normalize(p []byte) {
	for ; len(p) >= 8; p = p[8:] {
		if binary.NativeEndian.Uint64(p)&^0x0101010101010101 != 0 {
			normalizeBytes(p[:8])
		}
	}
	normalizeBytes(p)
}

func normalizeBytes(p []byte) {
	for i, v := range p {
		p[i] = min(v, 1)
	}
}

// readAt fills p with elements in the machine's byte order, starting at byte at of the elements.
func (n *File) readAt(p []byte, at int64) error {
	if k, err := n.r.ReadAt(p, n.start+at); k < len(p) {
		if err == io.EOF {
			return fmt.Errorf("%s: file cut short at byte %d while open (%w)",
				n.info.Path, n.start+at+int64(k), raster.ErrFormat)
		}
		if strings.Contains(err.Error(), n.info.Path) { // the error of a store is complete
			return err
		}
		return fmt.Errorf("%s: reading at byte %d: %w", n.info.Path, n.start+at, err)
	}
	if n.truth {
		normalize(p)
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

// grown returns n bytes of buf, which it replaces if it is too small.
func grown(buf *[]byte, n int) []byte {
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	return (*buf)[:n]
}
