package geotiff

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"

	"leat/internal/inflate"
)

// Photometric values whose samples are not plain bands.
const (
	photometricCMYK   = 5
	photometricCIELab = 8
	photometricICCLab = 9
	photometricITULab = 10
	photometricLogL   = 32844
	photometricLogLuv = 32845
)

// codecName returns the name of a compression in Info.
func codecName(c int) string {
	switch c {
	case compressNone:
		return "none"
	case 2, 3, 4:
		return "ccitt"
	case compressLZW:
		return "lzw"
	case 6, compressJPEG:
		return "jpeg"
	case compressDeflate, compressOldDeflate:
		return "deflate"
	case compressPackBits:
		return "packbits"
	case 34712:
		return "jpeg2000"
	case compressLERC:
		return "lerc"
	case compressLZMA:
		return "lzma"
	case compressZstd:
		return "zstd"
	case compressWebP:
		return "webp"
	case compressJXL, 52546:
		return "jpegxl"
	}
	return fmt.Sprintf("compression %d", c)
}

// codecReads reports whether the package can decode a compression.
func codecReads(c int) bool {
	switch c {
	case compressNone, compressLZW, compressDeflate, compressOldDeflate, compressPackBits, compressZstd:
		return true
	}
	return false
}

// expansion returns the largest number of bytes that one compressed byte can encode. It limits the
// memory that a header can claim to what the file can hold.
func expansion(compression int) int64 {
	switch compression {
	case compressLZW:
		return 4096 // a code of 12 bits encodes at most 4094-257 bytes
	case compressDeflate, compressOldDeflate:
		return 1032 // 258 bytes for two codes of a bit
	case compressZstd:
		return 128 << 10 / 4 // a block of one repeated byte
	case compressPackBits:
		return 64
	}
	return 1
}

// buffers holds the memory and the decoders for decoding one tile. A pool reuses them across reads.
type buffers struct {
	packed []byte // compressed bytes
	tile   []byte // the decoded tile
	spare  []byte // rows to be converted, bytes of predictor 3
	zlib   inflate.Decoder
	zstd   *zstd.Decoder
	lzw    *lzwDecoder
	job    job
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

// maxKept is the size of the largest buffer that a pooled buffers keeps.
const maxKept = 32 << 20

func (b *buffers) release() {
	for _, p := range []*[]byte{&b.packed, &b.tile, &b.spare} {
		if cap(*p) > maxKept {
			*p = nil
		}
	}
	b.job = job{}
	bufferPool.Put(b)
}

// grown returns n bytes of buf, aligned to 8, with undefined contents.
func grown(buf *[]byte, n int) []byte {
	if cap(*buf) < n {
		*buf = alignedBytes(n)
	}
	return (*buf)[:n]
}

var (
	errShort    = errors.New("fewer pixels than the tile has")
	errLong     = errors.New("more pixels than the tile has")
	errChecksum = errors.New("checksum does not match")
	errZlib     = errors.New("not deflate data")
	errDeflate  = errors.New("damaged deflate data")
)

// decompress fills dst from src. A last strip may hold up to full bytes, including padding beyond
// the end of the image, which is checked and discarded.
func (b *buffers) decompress(compression int, dst, src []byte, full int) error {
	switch compression {
	case compressNone:
		if copy(dst, src) < len(dst) {
			return errShort
		}
		return nil
	case compressDeflate, compressOldDeflate:
		return b.inflate(dst, src, full-len(dst))
	case compressLZW:
		if b.lzw == nil {
			b.lzw = new(lzwDecoder)
		}
		return b.lzw.decode(dst, src)
	case compressPackBits:
		return unpackBits(dst, src)
	case compressZstd:
		return b.unzstd(dst, src, full)
	}
	return fmt.Errorf("compression %d", compression) // checkCoding has refused all others
}

// inflate decodes a zlib stream and verifies its checksum. The stream may hold up to surplus bytes
// more than dst, or twice its size: libtiff leaves out what is too much.
func (b *buffers) inflate(dst, src []byte, surplus int) error {
	n, err := b.zlib.Zlib(dst, src)
	if err == inflate.ErrLong {
		// Limited to what src can hold, whatever the header claims.
		all := grown(&b.spare, int(min(int64(len(dst)+max(surplus, len(dst))), int64(len(src))*expansion(compressDeflate))))
		if n, err = b.zlib.Zlib(all, src); err == nil {
			n = copy(dst, all[:n])
		}
	}
	switch {
	case err == inflate.ErrHeader:
		return errZlib
	case err == inflate.ErrLong:
		return errLong
	case err == inflate.ErrTruncated, err == nil && n < len(dst):
		return errShort
	case err == inflate.ErrChecksum:
		return errChecksum
	case err != nil:
		return errDeflate
	}
	return nil
}

func (b *buffers) unzstd(dst, src []byte, full int) error {
	if b.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
		b.zstd = d
	}
	got, err := b.zstd.DecodeAll(src, dst[:0:len(dst)])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) && full > len(dst) {
		full = int(min(int64(full), int64(len(src))*expansion(compressZstd)))
		got, err = b.zstd.DecodeAll(src, grown(&b.spare, full)[:0:full])
		copy(dst, got)
	}
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return errLong
	case err != nil:
		return err
	case len(got) < len(dst):
		return errShort
	}
	return nil
}

// unpackBits decodes PackBits. Like libtiff it ignores data after the last pixel.
func unpackBits(dst, src []byte) error {
	for len(dst) > 0 {
		if len(src) == 0 {
			return errShort
		}
		n := int(int8(src[0]))
		src = src[1:]
		switch {
		case n >= 0:
			k := min(n+1, len(src), len(dst))
			copy(dst[:k], src)
			if k < n+1 && len(dst) > k {
				return errShort
			}
			dst, src = dst[k:], src[k:]
		case n == -128:
		default:
			if len(src) == 0 {
				return errShort
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

func reverseBits(p []byte) {
	for i, v := range p {
		p[i] = bits.Reverse8(v)
	}
}
