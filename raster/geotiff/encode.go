package geotiff

import (
	"encoding/binary"
	"fmt"
	"slices"

	"leat/ndarray"
)

// TileShape is what one tile holds.
type TileShape struct {
	Type          ndarray.DType
	Width, Height int // pixels, multiples of 16
	Samples       int // 1, or the number of bands when they are interleaved by pixel
}

// Bytes returns the bytes of the tile before encoding.
func (s TileShape) Bytes() int { return s.Width * s.Height * s.Samples * s.Type.Size() }

// check reports what is wrong with the shape.
func (s TileShape) check() error {
	switch {
	case !s.Type.Valid():
		return fmt.Errorf("geotiff: no element type given")
	case s.Width <= 0 || s.Height <= 0 || s.Width%16 != 0 || s.Height%16 != 0:
		return fmt.Errorf("geotiff: tile size %dx%d (sides must be multiples of 16)", s.Width, s.Height)
	case s.Samples <= 0 || s.Samples > maxBands:
		return fmt.Errorf("geotiff: %d bands (1 to %d are possible)", s.Samples, maxBands)
	case int64(s.Width)*int64(s.Height) > maxShapeBytes/int64(s.Samples)/int64(s.Type.Size()):
		return fmt.Errorf("geotiff: a tile of %dx%d with %d bands of %v is larger than %d MiB (take smaller tiles, or interleave by band)",
			s.Width, s.Height, s.Samples, s.Type, maxShapeBytes>>20)
	}
	return nil
}

const (
	maxBands = 65535
	// maxShapeBytes keeps every size of a tile, encoded or not, within 32 bits.
	maxShapeBytes = 1 << 30
)

// FrameBytes is what [Encoder.Encode] puts around a tile: its length before it (4 bytes, little
// endian) and its last 4 bytes once more behind it. They are part of the file that [Write] makes, where
// readers over a network use them to do without the table of tile sizes, and let Write check what it copies.
const FrameBytes = frameHead + frameTail

const (
	frameHead = 4
	frameTail = 4
)

// Encoder turns tiles into the bytes of the file. It holds the scratch memory of one goroutine: one
// is made for each. The bytes of a tile depend on nothing but its pixels, its shape and the coding.
type Encoder struct {
	shape    TileShape
	coding   Coding
	swapped  []byte // the tile in the file's byte order, where the machine has another
	scratch  []byte // the tile after the predictor
	row      []byte // one row for predictor 3
	compress codec
}

// codec compresses a tile.
type codec interface {
	// appendTile appends src, whose rows have rowBytes, compressed to dst.
	appendTile(dst, src []byte, rowBytes int) ([]byte, error)
}

// NewEncoder returns an encoder of tiles of one shape. It panics when the shape or the coding is not
// possible; [FileSpec.Check] and [Coding.Check] say so beforehand.
func NewEncoder(s TileShape, c Coding) *Encoder {
	if err := s.check(); err != nil {
		panic(err)
	}
	if err := c.Check(s.Type); err != nil {
		panic(err)
	}
	c = c.filled(s.Type)
	e := &Encoder{shape: s, coding: c, compress: newCodec(c)}
	if bigEndianMachine && s.Type.Size() > 1 {
		e.swapped = make([]byte, s.Bytes())
	}
	if c.Predictor > 1 {
		e.scratch = make([]byte, s.Bytes())
	}
	if c.Predictor == 3 {
		e.row = make([]byte, s.Bytes()/s.Height)
	}
	return e
}

func newCodec(c Coding) codec {
	switch c.Compression {
	case Deflate:
		return newDeflater(c.Level)
	case Zstd:
		return newZstdCodec(c.Level)
	case LZW:
		return new(lzwEncoder)
	case PackBits:
		return packBits{}
	}
	return stored{}
}

// Encode appends the encoded tile to dst, [FrameBytes] included, and returns the result. tile holds
// Width*Height*Samples elements in the machine's byte order, rows one after the other, the samples of
// a pixel side by side; it is left unchanged.
func (e *Encoder) Encode(dst, tile []byte) ([]byte, error) {
	if len(tile) != e.shape.Bytes() {
		return dst, fmt.Errorf("geotiff: a tile of %d bytes given, %d expected", len(tile), e.shape.Bytes())
	}
	src := tile
	if e.swapped != nil {
		swapBytes(e.swapped, src, e.shape.Type)
		src = e.swapped
	}
	rowBytes := len(tile) / e.shape.Height
	size := e.shape.Type.Size()
	switch e.coding.Predictor {
	case 2:
		for at := 0; at < len(src); at += rowBytes {
			differenceRow(e.scratch[at:at+rowBytes], src[at:at+rowBytes], e.shape.Samples*size, size)
		}
		src = e.scratch
	case 3:
		for at := 0; at < len(src); at += rowBytes {
			floatRow(e.scratch[at:at+rowBytes], src[at:at+rowBytes], e.row, e.shape.Samples, size)
		}
		src = e.scratch
	}
	return appendFramed(dst, src, rowBytes, e.compress)
}

// appendFramed appends src, compressed, with its frame.
func appendFramed(dst, src []byte, rowBytes int, c codec) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	out, err := c.appendTile(dst, src, rowBytes)
	if err != nil {
		return dst[:start], fmt.Errorf("geotiff: compressing a tile: %w", err)
	}
	n := len(out) - start - frameHead
	binary.LittleEndian.PutUint32(out[start:], uint32(n))
	out = slices.Grow(out, frameTail)
	return append(out, out[len(out)-frameTail:]...), nil
}

// stored is the codec of tiles that are not compressed.
type stored struct{}

func (stored) appendTile(dst, src []byte, _ int) ([]byte, error) { return append(dst, src...), nil }

// bigEndianMachine tells that pixels in memory have the other byte order than the files written,
// which are little endian always.
var bigEndianMachine = binary.NativeEndian.Uint16([]byte{1, 0}) != 1

// swapBytes copies src to dst with the bytes of every number reversed.
func swapBytes(dst, src []byte, t ndarray.DType) {
	size := t.Size()
	if t.IsComplex() {
		size /= 2
	}
	for i := 0; i+size <= len(src); i += size {
		for k := range size {
			dst[i+k] = src[i+size-1-k]
		}
	}
}

// MaskEncoder encodes tiles of a mask as [Encoder] does tiles of pixels: one bit a pixel, deflate.
type MaskEncoder struct {
	width, height int
	bits          []byte
	compress      codec
}

// NewMaskEncoder returns an encoder of mask tiles, which have the size of the raster's tiles.
func NewMaskEncoder(width, height int) *MaskEncoder {
	if err := (TileShape{ndarray.Uint8, width, height, 1}).check(); err != nil {
		panic(err)
	}
	return &MaskEncoder{width: width, height: height, bits: make([]byte, width*height/8), compress: newDeflater(maskLevel)}
}

// maskLevel: masks are long runs, on which more effort saves nothing.
const maskLevel = 5

// Encode appends the encoded tile to dst, [FrameBytes] included. mask has a byte for each pixel of
// the tile, rows one after the other: 0 for masked out, anything else for valid.
func (e *MaskEncoder) Encode(dst, mask []byte) ([]byte, error) {
	if len(mask) != e.width*e.height {
		return dst, fmt.Errorf("geotiff: a mask of %d bytes given, %d expected", len(mask), e.width*e.height)
	}
	for i := range e.bits {
		var b byte
		for k, m := range mask[8*i : 8*i+8] {
			if m != 0 {
				b |= 0x80 >> k
			}
		}
		e.bits[i] = b
	}
	return appendFramed(dst, e.bits, e.width/8, e.compress)
}
