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

// codecName names a compression as Info gives it.
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

// expansion is the most bytes that one byte of compressed data can stand for. It keeps a header from
// making us take memory for pixels that the file can't hold.
func expansion(compression int) int64 {
	switch compression {
	case compressLZW:
		return 4096 // a code of 12 bits stands for at most 4094-257 bytes
	case compressDeflate, compressOldDeflate:
		return 1032 // 258 bytes for two codes of a bit
	case compressZstd:
		return 128 << 10 / 4 // a block of one repeated byte
	case compressPackBits:
		return 64
	}
	return 1
}

// bench holds what decoding one tile needs, kept from tile to tile and from read to read.
type bench struct {
	packed []byte // bytes of the file
	tile   []byte // the decoded tile
	spare  []byte // rows on their way, bytes of predictor 3
	zlib   inflate.Decoder
	zstd   *zstd.Decoder
	lzw    *lzwDecoder
	job    job
}

var benches = sync.Pool{New: func() any { return new(bench) }}

// maxKept is the largest buffer that outlives its read: a giant strip's memory goes back.
const maxKept = 32 << 20

func (b *bench) release() {
	for _, p := range []*[]byte{&b.packed, &b.tile, &b.spare} {
		if cap(*p) > maxKept {
			*p = nil
		}
	}
	b.job = job{}
	benches.Put(b)
}

// grown returns buf with length n, aligned to 8, its content lost.
func grown(buf *[]byte, n int) []byte {
	if cap(*buf) < n {
		*buf = alignedBytes(n)
	}
	return (*buf)[:n]
}

var (
	errShort    = errors.New("it holds fewer pixels than its place in the image")
	errLong     = errors.New("it holds more pixels than its place in the image")
	errChecksum = errors.New("its checksum does not fit its pixels")
	errZlib     = errors.New("its header is not that of deflate data")
	errDeflate  = errors.New("its deflate data is damaged")
)

// decompress fills dst from src. A last strip may hold up to full bytes, padding past the image's end
// included; the surplus is checked and dropped.
func (b *bench) decompress(compression int, dst, src []byte, full int) error {
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
	return fmt.Errorf("compression %d", compression) // checkCoding lets none pass
}

// inflate decodes a zlib stream and checks its sum. The stream may hold up to surplus bytes more than dst.
func (b *bench) inflate(dst, src []byte, surplus int) error {
	n, err := b.zlib.Zlib(dst, src)
	if err == inflate.ErrLong && surplus > 0 {
		// No more than so few bytes can hold, whatever the header claims.
		all := grown(&b.spare, int(min(int64(len(dst)+surplus), int64(len(src))*expansion(compressDeflate))))
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

func (b *bench) unzstd(dst, src []byte, full int) error {
	if b.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
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

// unpackBits decodes PackBits. What follows the last pixel is left alone, as libtiff does.
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
