package tiffwrite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"leat/internal/deflate"
	"leat/internal/tiff"
	"leat/ndarray"
)

// TileShape describes the pixels of one tile.
type TileShape struct {
	Type          ndarray.DType
	Width, Height int // in pixels, multiples of 16
	Samples       int // 1, or the number of bands if they are pixel-interleaved
}

// Bytes returns the size of the tile in bytes before encoding.
func (s TileShape) Bytes() int { return s.Width * s.Height * s.Samples * s.Type.Size() }

// wordSize returns the size in bytes of what changes with the byte order: a complex pixel has two.
func (s TileShape) wordSize() int {
	if s.Type.IsComplex() {
		return s.Type.Size() / 2
	}
	return s.Type.Size()
}

// check returns an error if the shape is invalid.
func (s TileShape) check() error {
	switch {
	case !s.Type.Valid():
		return fmt.Errorf("element type is missing")
	case s.Width <= 0 || s.Height <= 0 || s.Width%16 != 0 || s.Height%16 != 0:
		return fmt.Errorf("tile size %dx%d (sides must be multiples of 16)", s.Width, s.Height)
	case s.Samples <= 0 || s.Samples > maxBands:
		return fmt.Errorf("%d bands (1 to %d are possible)", s.Samples, maxBands)
	case int64(s.Width)*int64(s.Height) > maxShapeBytes/int64(s.Samples)/int64(s.Type.Size()):
		return fmt.Errorf("tile of %dx%d with %d bands of %v is larger than %d MiB (use smaller tiles, or interleave by band)",
			s.Width, s.Height, s.Samples, s.Type, maxShapeBytes>>20)
	}
	return nil
}

const (
	maxBands = 65535
	// maxShapeBytes keeps every size of a tile, encoded or not, within 32 bits.
	maxShapeBytes = 1 << 30
)

// FrameBytes is the number of bytes that [Encoder.Encode] adds to a tile: its length before it (4
// bytes, little endian) and its last 4 bytes repeated after it. They are part of the file. Readers
// over a network use them instead of the table of tile sizes, and Write checks with them what it
// copies.
const FrameBytes = frameHead + frameTail

const (
	frameHead = 4
	frameTail = 4
)

// Memory is what the encoders of one goroutine share: most of the time for a small file goes into
// the first use of memory. The zero value is ready to use.
type Memory struct {
	scratch   []byte            // a tile after the predictor, for Encode
	deflate   *deflate.Encoder  // of level 1; nil until it is needed
	deflaters map[int]*deflater // by level; nil until one is needed
}

// Encoder encodes tiles. It holds scratch memory, so each goroutine needs its own. The encoded
// bytes depend only on the tile's pixels, its shape and the coding.
type Encoder struct {
	memory   *Memory
	shape    TileShape
	coding   Coding
	swapped  []byte    // the tile in the file's byte order, if the machine's differs
	rows     [2][]byte // a row before the predictor, and the one above it
	row      []byte    // one row for predictor 3
	compress compressor
	uniform  uniformTile
}

// uniformTile is the last tile whose pixels were all equal: areas without data have many.
type uniformTile struct{ pixel, encoded []byte }

// maxUniform bounds what an encoder keeps of a uniform tile, which compresses to less.
const maxUniform = 64 << 10

// compressor compresses tiles.
type compressor interface {
	// appendTile compresses src, whose rows have rowBytes bytes, and appends the result to dst.
	appendTile(dst, src []byte, rowBytes int) ([]byte, error)
}

// NewEncoder returns an encoder of tiles of one shape, with memory of its own. It panics if the
// shape or the coding is invalid; [FileSpec.Check] and [Coding.Check] report that as an error.
func NewEncoder(s TileShape, c Coding) *Encoder { return NewEncoderIn(new(Memory), s, c) }

// NewEncoderIn is NewEncoder for encoders that one goroutine uses in turn, with memory that they
// share.
func NewEncoderIn(m *Memory, s TileShape, c Coding) *Encoder {
	if err := s.check(); err != nil {
		panic(err)
	}
	if err := c.Check(s.Type); err != nil {
		panic(err)
	}
	c = c.filled(s.Type)
	e := &Encoder{memory: m, shape: s, coding: c, compress: newCompressor(m, s, c)}
	if tiff.NativeBig && s.Type.Size() > 1 {
		e.swapped = make([]byte, s.Bytes())
	}
	rowBytes := s.Bytes() / s.Height
	if c.Predictor > 1 {
		e.rows = [2][]byte{make([]byte, rowBytes), make([]byte, rowBytes)}
	}
	if c.Predictor == 3 {
		e.row = make([]byte, rowBytes)
	}
	return e
}

func newCompressor(m *Memory, s TileShape, c Coding) compressor {
	switch c.Compression {
	case Deflate:
		if c.Level == 1 {
			return newTileDeflater(m, s, c.Predictor)
		}
		return m.deflater(c.Level)
	case Zstd:
		return newZstdEncoder(c.Level)
	case LZW:
		return new(lzwEncoder)
	case PackBits:
		return packBits{}
	case None, "":
		return stored{}
	}
	panic("tiffwrite: no encoder for " + c.Compression)
}

// Encode appends the encoded tile, [FrameBytes] included, to dst and returns the result. tile holds
// Width*Height*Samples elements in the machine's byte order: row by row, the samples of a pixel
// together. Encode does not change it.
func (e *Encoder) Encode(dst, tile []byte) ([]byte, error) {
	m, n := e.memory, e.shape.Bytes()
	if e.coding.Predictor > 1 && cap(m.scratch) < n {
		m.scratch = make([]byte, n)
	}
	return e.encodeTo(dst, tile, m.scratch[:min(n, cap(m.scratch))])
}

// EncodeOver is Encode in the memory of the tile, whose pixels it overwrites. It touches half as
// much memory.
func (e *Encoder) EncodeOver(dst, tile []byte) ([]byte, error) { return e.encodeTo(dst, tile, tile) }

// EncodeRows is Encode for a tile whose rows begin stride bytes apart; the last one ends src. It
// overwrites spare, which has the size of a tile and does not overlap src. Before it encodes rows,
// while they are in the cache, it calls visit for them, unless it is nil: n rows from row y on, in
// order.
func (e *Encoder) EncodeRows(dst, src []byte, stride int, spare []byte, visit func(y, n int)) ([]byte, error) {
	n := e.shape.Bytes() / e.shape.Height
	if stride < n || len(src) != (e.shape.Height-1)*stride+n || len(spare) != e.shape.Bytes() {
		return dst, fmt.Errorf("tile has %d bytes with rows %d bytes apart, expected %d rows of %d", len(src), stride,
			e.shape.Height, n)
	}
	pixel := e.shape.Samples * e.shape.Type.Size()
	if e.coding.Predictor < 2 || e.swapped != nil || bytes.Equal(src[pixel:n], src[:n-pixel]) { // maybe uniform
		if visit != nil {
			visit(0, e.shape.Height)
		}
		for y := range e.shape.Height {
			copy(spare[y*n:(y+1)*n], src[y*stride:])
		}
		return e.EncodeOver(dst, spare)
	}
	return e.encode(dst, src, stride, spare, visit)
}

// visited is the number of rows that EncodeRows shows at a time: 16 KiB in tiles of 512 float32.
const visited = 8

// encodeTo is Encode with memory for the tile after the predictor, which may be the tile's.
func (e *Encoder) encodeTo(dst, tile, scratch []byte) ([]byte, error) {
	if len(tile) != e.shape.Bytes() {
		return dst, fmt.Errorf("tile has %d bytes, expected %d", len(tile), e.shape.Bytes())
	}
	pixel := e.shape.Samples * e.shape.Type.Size()
	uniform := bytes.Equal(tile[pixel:], tile[:len(tile)-pixel])
	if uniform && bytes.Equal(e.uniform.pixel, tile[:pixel]) {
		return append(dst, e.uniform.encoded...), nil
	}
	if uniform { // before its pixels are overwritten
		e.uniform.pixel, e.uniform.encoded = append(e.uniform.pixel[:0], tile[:pixel]...), e.uniform.encoded[:0]
	}
	out, err := e.encode(dst, tile, len(tile)/e.shape.Height, scratch, nil)
	if n := len(out) - len(dst); uniform && (err != nil || n > maxUniform) {
		e.uniform.pixel = e.uniform.pixel[:0]
	} else if uniform {
		e.uniform.encoded = append(e.uniform.encoded[:0], out[len(dst):]...)
	}
	return out, err
}

// encode encodes a tile whose rows begin stride bytes apart; there are gaps only with a predictor.
// visit is that of EncodeRows.
func (e *Encoder) encode(dst, tile []byte, stride int, scratch []byte, visit func(y, n int)) ([]byte, error) {
	src := tile
	if e.swapped != nil {
		copy(e.swapped, src)
		tiff.SwapWords(e.swapped, e.shape.wordSize())
		src = e.swapped
	}
	rowBytes := e.shape.Bytes() / e.shape.Height
	size := e.shape.Type.Size()
	if e.coding.Predictor > 1 {
		var above []byte
		for y := range e.shape.Height {
			if visit != nil && y%visited == 0 {
				visit(y, min(visited, e.shape.Height-y))
			}
			row, to := src[y*stride:][:rowBytes], scratch[y*rowBytes:][:rowBytes]
			// A copy is also the fastest way to fetch rows that are apart into the cache.
			if &row[0] == &to[0] || stride > rowBytes {
				row = e.nextRow(row)
			}
			switch {
			case y > 0 && bytes.Equal(row, above): // as rows of padding are
				copy(to, scratch[(y-1)*rowBytes:])
			case e.coding.Predictor == 2:
				differenceRow(to, row, e.shape.Samples*size, size)
			default:
				floatRow(to, row, e.row, e.shape.Samples, size)
			}
			above = row
		}
		src = scratch
	}
	start := len(dst)
	out, err := e.compress.appendTile(append(dst, 0, 0, 0, 0), src, rowBytes)
	if err != nil {
		return dst, fmt.Errorf("compressing a tile: %w", err)
	}
	binary.LittleEndian.PutUint32(out[start:], uint32(len(out)-start-frameHead))
	out = slices.Grow(out, frameTail)
	return append(out, out[len(out)-frameTail:]...), nil
}

// nextRow returns a copy of a row. That of the row before it stays valid.
func (e *Encoder) nextRow(src []byte) []byte {
	e.rows[0], e.rows[1] = e.rows[1], e.rows[0]
	copy(e.rows[0], src)
	return e.rows[0]
}

// stored is the compressor of uncompressed tiles.
type stored struct{}

func (stored) appendTile(dst, src []byte, _ int) ([]byte, error) { return append(dst, src...), nil }
