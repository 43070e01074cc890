package tiff

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"leat/internal/inflate"
	"leat/ndarray"
)

// CompressionName returns the name of a compression in Info.
func CompressionName(c int) string {
	if name, ok := compressionNames[c]; ok {
		return name
	}
	return fmt.Sprintf("compression %d", c)
}

var compressionNames = map[int]string{CompressionNone: "none", 2: "ccitt", 3: "ccitt", 4: "ccitt", CompressionLZW: "lzw",
	6: "jpeg", CompressionJPEG: "jpeg", CompressionDeflate: "deflate", CompressionOldDeflate: "deflate",
	CompressionPackBits: "packbits", 34712: "jpeg2000", CompressionLERC: "lerc", CompressionLZMA: "lzma",
	CompressionZstd: "zstd", CompressionWebP: "webp", CompressionJXL: "jpegxl", 52546: "jpegxl"}

// Decodes reports whether the package can decode a compression.
func Decodes(c int) bool {
	switch c {
	case CompressionNone, CompressionLZW, CompressionDeflate, CompressionOldDeflate, CompressionPackBits,
		CompressionZstd:
		return true
	}
	return false
}

// Expansion returns the largest number of bytes that one compressed byte can encode. It limits the
// memory that a header can claim to what the file can hold.
func Expansion(compression int) int64 {
	switch compression {
	case CompressionLZW:
		return 4096 // a code of 12 bits encodes at most 4094-257 bytes
	case CompressionDeflate, CompressionOldDeflate:
		return 1032 // 258 bytes for two codes of a bit
	case CompressionZstd:
		return 128 << 10 / 4 // a block of one repeated byte
	case CompressionPackBits:
		return 64
	}
	return 1
}

// Decoder decompresses tiles. It keeps its scratch memory between them, so each goroutine needs its
// own; the zero value is ready for use.
type Decoder struct {
	scratch []byte
	zlib    inflate.Pair
	zstd    *zstd.Decoder
	lzw     *lzwDecoder
}

// Scratch returns n bytes, aligned to 8, with undefined contents. They are valid until the next
// call of a method.
func (d *Decoder) Scratch(n int) []byte { return Grow(&d.scratch, n) }

// Trim prepares d and further buffers for a pool: it releases memory of unusual size.
func (d *Decoder) Trim(buffers ...*[]byte) {
	for _, b := range append(buffers, &d.scratch) {
		if cap(*b) > maxPooled {
			*b = nil
		}
	}
}

// maxPooled is the size of the largest buffer that stays in a pool.
const maxPooled = 32 << 20

// Grow returns n bytes of buf, aligned to 8, with undefined contents. It replaces a buf that is too
// small.
func Grow(buf *[]byte, n int) []byte {
	if cap(*buf) < n {
		*buf = ndarray.BytesOf(make([]uint64, (n+7)/8))[:n:n]
	}
	return (*buf)[:n]
}

// ErrShort is returned for data that ends before the tile is complete.
var ErrShort = errors.New("fewer pixels than the tile has")

var (
	errLong     = errors.New("more pixels than the tile has")
	errChecksum = errors.New("checksum does not match")
	errZlib     = errors.New("not deflate data")
	errDeflate  = errors.New("damaged deflate data")
)

// Decompress fills dst from src. A last strip may hold up to full bytes, including padding beyond
// the end of the image, which is checked and discarded.
func (d *Decoder) Decompress(compression int, dst, src []byte, full int) error {
	switch compression {
	case CompressionNone:
		if copy(dst, src) < len(dst) {
			return ErrShort
		}
		return nil
	case CompressionDeflate, CompressionOldDeflate:
		return d.inflate(dst, src, full-len(dst))
	case CompressionLZW:
		if d.lzw == nil {
			d.lzw = new(lzwDecoder)
		}
		return d.lzw.decode(dst, src)
	case CompressionPackBits:
		return unpackBits(dst, src)
	case CompressionZstd:
		return d.unzstd(dst, src, full)
	}
	return fmt.Errorf("compression %d", compression) // checkCoding has refused all others
}

// PairBytes is the largest size of decoded tiles that reads inflate two at once. The memory of a
// read is planned for two tiles of this size.
const PairBytes = 2 << 20

// InflateBoth is Decompress for two tiles of CompressionDeflate, which are decoded faster together.
func (d *Decoder) InflateBoth(dstA, srcA []byte, fullA int, dstB, srcB []byte, fullB int) (errA, errB error) {
	nA, errA, nB, errB := d.zlib.Both(dstA, srcA, dstB, srcB)
	if errA != nil || nA < len(dstA) { // find the error, or decode a stream that is too long
		errA = d.inflate(dstA, srcA, fullA-len(dstA))
	}
	if errB != nil || nB < len(dstB) {
		errB = d.inflate(dstB, srcB, fullB-len(dstB))
	}
	return errA, errB
}

// inflate decodes a zlib stream and verifies its checksum. The stream may hold more than dst, by up
// to surplus bytes or the size of dst, whichever is more: like libtiff, inflate drops the excess.
func (d *Decoder) inflate(dst, src []byte, surplus int) error {
	n, err := d.zlib.One(dst, src)
	if err == inflate.ErrLong {
		// Limited to what src can hold, whatever the header claims.
		all := d.Scratch(int(min(int64(len(dst)+max(surplus, len(dst))),
			int64(len(src))*Expansion(CompressionDeflate))))
		if n, err = d.zlib.One(all, src); err == nil {
			n = copy(dst, all[:n])
		}
	}
	return inflateError(n, len(dst), err)
}

// InflateStart fills dst with the first bytes of a zlib stream. It verifies the checksum only if
// these are all.
func (d *Decoder) InflateStart(dst, src []byte) error {
	n, err := d.zlib.One(dst, src)
	if err == inflate.ErrLong { // dst is full
		return nil
	}
	return inflateError(n, len(dst), err)
}

// inflateError returns the error for a stream of n bytes, where size were expected.
func inflateError(n, size int, err error) error {
	switch {
	case err == inflate.ErrHeader:
		return errZlib
	case err == inflate.ErrLong:
		return errLong
	case err == inflate.ErrTruncated, err == nil && n < size:
		return ErrShort
	case err == inflate.ErrChecksum:
		return errChecksum
	case err != nil:
		return errDeflate
	}
	return nil
}

func (d *Decoder) unzstd(dst, src []byte, full int) error {
	if d.zstd == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
		d.zstd = dec
	}
	got, err := d.zstd.DecodeAll(src, dst[:0:len(dst)])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) && full > len(dst) {
		full = int(min(int64(full), int64(len(src))*Expansion(CompressionZstd)))
		got, err = d.zstd.DecodeAll(src, d.Scratch(full)[:0:full])
		copy(dst, got)
	}
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return errLong
	case err != nil:
		return err
	case len(got) < len(dst):
		return ErrShort
	}
	return nil
}

// unpackBits decodes PackBits. Like libtiff it ignores data after the last pixel.
func unpackBits(dst, src []byte) error {
	for len(dst) > 0 {
		if len(src) == 0 {
			return ErrShort
		}
		n := int(int8(src[0]))
		src = src[1:]
		switch {
		case n >= 0:
			k := min(n+1, len(src), len(dst))
			copy(dst[:k], src)
			if k < n+1 && len(dst) > k {
				return ErrShort
			}
			dst, src = dst[k:], src[k:]
		case n == -128:
		default:
			if len(src) == 0 {
				return ErrShort
			}
			k := min(1-n, len(dst))
			for i := range dst[:k] {
				dst[i] = src[0]
			}
			dst, src = dst[k:], src[1:]
		}
	}
	return nil
}
