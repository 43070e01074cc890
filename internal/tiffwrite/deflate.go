package tiffwrite

import (
	"encoding/binary"

	"github.com/klauspost/compress/flate"

	"leat/internal/adler"
	"leat/internal/deflate"
)

// tileDeflater writes zlib streams, which TIFF calls deflate, at level 1.
type tileDeflater struct {
	memory  *Memory
	options deflate.Options
}

func newTileDeflater(m *Memory, s TileShape, predictor int) tileDeflater {
	return tileDeflater{m, deflate.Options{Element: s.Type.Size(), Row: s.Bytes() / s.Height, Predictor: predictor}}
}

func (d tileDeflater) appendTile(dst, src []byte, _ int) ([]byte, error) {
	enc := d.memory.deflate
	if enc == nil {
		enc = deflate.NewEncoder(d.options)
		d.memory.deflate = enc
	} else {
		enc.Reset(d.options)
	}
	return enc.AppendZlib(dst, src), nil
}

// deflater writes zlib streams at levels 2 to 9, which are those of klauspost/compress.
//
// Its fast levels, up to 6, store data without repetitions uncompressed, although noisy pixels
// shrink to three quarters if they are Huffman-coded. Therefore a tile is divided into chunks, and
// a chunk that did not shrink well is also Huffman-coded without matches, which is fast; the
// shorter result is used. For 16-bit scenes this gives the size of zlib's level 6 at several times
// its speed.
type deflater struct {
	out    appender
	level  int
	window *flate.Writer // with a window
	bytes  *flate.Writer // Huffman codes without matches
	seen   int64         // bytes that window has seen
	header [2]byte
}

const (
	// deflateChunk is the compressor's block size, rounded down to a multiple of 4.
	deflateChunk = 65532
	// A chunk that keeps 3/4 of its size is also Huffman-coded without matches. Floats after
	// predictor 3 shrink more, and coding them twice never pays.
	triedNumerator, triedDenominator = 3, 4
	// quickLevels is the highest level that stores noise uncompressed.
	quickLevels = 6
	// renewAfter is the number of bytes after which the compressor is replaced. It numbers all
	// bytes it has seen with 31 bits. When these run out it rebases its tables, after which the
	// bytes of a tile could depend on the tiles before it.
	renewAfter = 1 << 30
)

// deflater returns the memory's compressor of a level, which has no state between tiles.
func (m *Memory) deflater(level int) *deflater {
	if m.deflaters[level] == nil {
		if m.deflaters == nil {
			m.deflaters = map[int]*deflater{}
		}
		m.deflaters[level] = newDeflater(level)
	}
	return m.deflaters[level]
}

func newDeflater(level int) *deflater {
	d := &deflater{level: level}
	// 0x78 is deflate with a window of 32 KiB. The second byte gives the level and makes the number
	// a multiple of 31.
	switch {
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
		panic(err) // Coding.Check has checked the level
	}
	populateTables(w)
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
	out := binary.BigEndian.AppendUint32(d.out.b, adler.Checksum(src))
	d.out.b = nil // the memory belongs to the caller
	return out, nil
}

// chunk appends one chunk, padded to a whole byte. The window spans all chunks: the bytes before a
// chunk are the same to a reader however they were coded.
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

// appender is an io.Writer that appends to memory.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
