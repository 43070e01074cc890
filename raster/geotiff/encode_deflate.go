package geotiff

import (
	"encoding/binary"
	"hash/adler32"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// deflater writes zlib streams: what TIFF calls deflate.
//
// The quick levels of the compressor, 1 to 6, store what they find no repetitions in, although pixels with
// noise have none and can still be coded in three quarters of their size by the frequency of
// their bytes alone. So a tile goes through in chunks, and a chunk that did not shrink well is coded by frequency
// too, which is quick; the shorter of both stays. On 16-bit scenes that gives the size of zlib's level 6 at several times its
// speed.
type deflater struct {
	out    appender
	level  int
	window *flate.Writer // by level
	bytes  *flate.Writer // by frequency only
	seen   int64         // by window
	header [2]byte
}

const (
	// deflateChunk is what the compressor takes as a block, less what makes it even.
	deflateChunk = 65532
	// A chunk that keeps 3/4 of its size is tried by frequency: floats after predictor 3 stay below that, and
	// there the trial never pays.
	triedNumerator, triedDenominator = 3, 4
	// quickLevels are those that store too soon.
	quickLevels = 6
	// renewAfter bytes the compressor is made anew. It numbers all bytes it has ever seen with 31 bits
	// and rebases its tables when those run out; staying below that, a tile's bytes can't
	// depend on what was encoded before it.
	renewAfter = 1 << 30
)

func newDeflater(level int) *deflater {
	d := &deflater{level: level}
	// 0x78: deflate with a window of 32 KiB; the second byte tells the effort and makes the
	// number a multiple of 31.
	switch {
	case level < 2:
		d.header = [2]byte{0x78, 0x01}
	case level < 6:
		d.header = [2]byte{0x78, 0x5e}
	case level == 6:
		d.header = [2]byte{0x78, 0x9c}
	default:
		d.header = [2]byte{0x78, 0xda}
	}
	d.bytes = newFlate(&d.out, flate.HuffmanOnly)
	return d
}

func newFlate(out *appender, level int) *flate.Writer {
	w, err := flate.NewWriter(out, level)
	if err != nil {
		panic(err) // Coding.Check knows the levels
	}
	return w
}

func (d *deflater) appendTile(dst, src []byte, _ int) ([]byte, error) {
	if d.window == nil || d.seen+int64(len(src)) > renewAfter {
		d.window, d.seen = newFlate(&d.out, d.level), 0
	} else {
		d.window.Reset(&d.out)
	}
	d.seen += int64(len(src)) + 1<<16 // a reset skips a window
	d.bytes.Reset(&d.out)
	d.out.b = append(dst, d.header[:]...)
	for rest := src; len(rest) > 0; {
		chunk := rest
		if d.level <= quickLevels {
			chunk = rest[:min(len(rest), deflateChunk)]
		}
		rest = rest[len(chunk):]
		if err := d.chunk(chunk, len(rest) == 0); err != nil {
			return dst, err
		}
	}
	out := binary.BigEndian.AppendUint32(d.out.b, adler32.Checksum(src))
	d.out.b = nil // the memory is the caller's
	return out, nil
}

// chunk appends one chunk, ending on a whole byte. The window goes on over all chunks: what a reader
// has before a chunk does not depend on how it was coded.
func (d *deflater) chunk(chunk []byte, last bool) error {
	start := len(d.out.b)
	if err := deflateChunkBy(d.window, chunk, last); err != nil {
		return err
	}
	n := len(d.out.b) - start
	if d.level > quickLevels || n*triedDenominator < len(chunk)*triedNumerator {
		return nil
	}
	if err := deflateChunkBy(d.bytes, chunk, last); err != nil {
		return err
	}
	if m := len(d.out.b) - start - n; m < n {
		copy(d.out.b[start:], d.out.b[start+n:])
		n = m
	}
	d.out.b = d.out.b[:start+n]
	return nil
}

func deflateChunkBy(w *flate.Writer, chunk []byte, last bool) error {
	if _, err := w.Write(chunk); err != nil {
		return err
	}
	if last {
		return w.Close()
	}
	return w.Flush()
}

// appender is a writer into memory.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// zstdCodec writes one zstd frame a tile, with its checksum.
type zstdCodec struct{ enc *zstd.Encoder }

func newZstdCodec(level int) zstdCodec {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true),
		zstd.WithAllLitEntropyCompression(true)) // else noise is stored, see deflater
	if err != nil {
		panic(err) // no option depends on input
	}
	return zstdCodec{enc}
}

func (z zstdCodec) appendTile(dst, src []byte, _ int) ([]byte, error) {
	return z.enc.EncodeAll(src, dst), nil
}
