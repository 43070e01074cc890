package deflate

import (
	"encoding/binary"
	"slices"

	"leat/internal/adler"
)

// Sizes in bytes. A block is a multiple of 8 and fits in one stored block. Smaller blocks gain
// nothing, and larger ones make noise 0.1 % larger.
const (
	blockSize   = 65528
	segmentSize = 16 * blockSize // of the blocks that share a matcher
)

// tableSize is the number of places that the matchers remember, in 64 KiB.
const tableSize = 1 << 15

// Options describes the bytes to encode.
type Options struct {
	Element   int // size of an element in bytes, 0 if unknown
	Row       int // size of a row in bytes, 0 if unknown
	Predictor int // TIFF's predictor that the bytes went through: 2, 3, or another number for none
}

// Encoder encodes streams. It holds 340 KiB of tables and tokens, so encoding allocates only the
// stream. An Encoder is for one goroutine at a time. Its streams do not depend on one another.
type Encoder struct {
	kind     kind
	matchers []matcher // from the quickest to the slowest
	row      int

	table  [tableSize]uint16 // places modulo 65536
	tokens []uint32          // of a block
	code   code
}

// matcher divides src[at:end] into literals and matches. It stores their tokens in e.tokens and
// returns how many elements it stored. Matches may refer to bytes before at.
type matcher func(e *Encoder, src []byte, at, end int) int

// kind is the kind of data, by which the slowest matcher is selected.
type kind int

const (
	other  kind = iota
	planes      // the bytes of floats after predictor 3, or of differences of more than 16 bits
	pixels      // differences of 16 bits
)

const (
	slowest = 2 // index of a matcher
	// A slower matcher is chosen only if it makes the sample smaller by 1/saving.
	saving = 500
	// The slowest matcher of pixels takes three times as long and must save more.
	savingOfPixels = 40
	// The slowest matcher is tried only if a quicker one makes the sample smaller by 1/noisy.
	noisy = 500
	// A sample that shrinks to 1/empty of its size has large areas without data.
	empty = 32
)

// NewEncoder returns an encoder of data that o describes.
func NewEncoder(o Options) *Encoder {
	e := &Encoder{row: o.Row, tokens: make([]uint32, blockSize+16), code: code{vector: hasVBMI}}
	if o.Row <= 0 || o.Row >= window {
		e.row = 1
	}
	e.matchers = []matcher{(*Encoder).runs, (*Encoder).sixBytes}
	switch {
	case o.Predictor == 3 || o.Predictor == 2 && o.Element > 2:
		e.matchers, e.kind = append(e.matchers, (*Encoder).fiveBytes), planes
	case o.Predictor == 2 && o.Element == 2:
		e.matchers, e.kind = append(e.matchers, (*Encoder).pixels), pixels
	default:
		e.matchers = append(e.matchers, (*Encoder).rows)
	}
	return e
}

// AppendZlib appends a zlib stream (RFC 1950) of src to dst and returns the result. The stream
// depends on src and the options only. It has at most len(src)+len(src)/1000+64 bytes.
func (e *Encoder) AppendZlib(dst, src []byte) []byte {
	noteRead(e, src)
	// Deflate, a window of 32 KiB, the fastest level, and the check bits: a multiple of 31.
	w := bitWriter{out: append(dst, 0x78, 0x01), at: len(dst) + 2}
	if len(src) == 0 {
		w.grow(2)
		w.add(3, 10) // the last block, with the fixed codes, and its end
	}
	clear(e.table[:])
	for at := 0; at < len(src); at += segmentSize {
		end := min(at+segmentSize, len(src))
		find := e.choose(src, at, end)
		for at := at; at < end; at += blockSize {
			to := min(at+blockSize, end)
			e.block(&w, src, at, to, find(e, src, at, to), to == len(src))
		}
	}
	w.align()
	out := binary.BigEndian.AppendUint32(w.out[:w.at], adler.Checksum(src))
	noteWritten(out[len(dst):])
	return out
}

// choose returns the matcher for src[at:end]: it compares the sizes to which each encodes a sample.
func (e *Encoder) choose(src []byte, at, end int) matcher {
	pieces := samplePieces(at, end)
	raw := 0
	for _, p := range pieces {
		raw += 8 * (p.end - p.at)
	}
	best, size := 0, e.sampleSize(0, src, pieces)
	for i := 1; i < len(e.matchers); i++ {
		if i == slowest {
			if e.kind != other && size < raw/empty {
				if n := e.sizeBy((*Encoder).sparse, src, pieces); n < size-size/saving {
					return (*Encoder).sparse
				}
			}
			most := raw - raw/noisy
			if e.kind == pixels && best == 0 {
				most = raw * 3 / 4 // in scenes that shrink less, pixels repeat too seldom
			}
			if size > most || e.kind == planes && best == 0 {
				break // it would find nothing, or too little
			}
			if e.kind == pixels && len(pieces) > 1 {
				// Pixels repeat at great distances. The first piece has few bytes before it, so its
				// size would underrate this matcher.
				pieces = pieces[1:]
				size = e.sampleSize(best, src, pieces)
			}
		}
		least := saving
		if i == slowest && e.kind == pixels {
			least = savingOfPixels
		}
		if n := e.sampleSize(i, src, pieces); n < size-size/least {
			best, size = i, n
		}
	}
	return e.matchers[best]
}

// piece is a part of a sample: places in the source.
type piece struct{ at, end int }

// samplePieces returns a sample of src[at:end]. It includes the beginning, middle and end, since
// tiles at the edges of rasters end with padding.
func samplePieces(at, end int) []piece {
	const number, shortest = 3, 4 << 10
	n := end - at
	if n <= number*shortest {
		return []piece{{at, end}}
	}
	length := max(shortest, n/96&^7)
	pieces := make([]piece, number)
	for k := range pieces {
		from := at + k*(n-length)/(number-1)&^7
		pieces[k] = piece{from, from + length}
	}
	return pieces
}

// sampleSize returns the number of bits to which e.matchers[i] encodes the pieces.
func (e *Encoder) sampleSize(i int, src []byte, pieces []piece) int {
	find := e.matchers[i]
	if i == slowest && e.kind == pixels {
		find = (*Encoder).pixelsAfterWindow
	}
	return e.sizeBy(find, src, pieces)
}

func (e *Encoder) sizeBy(find matcher, src []byte, pieces []piece) int {
	e.code.clear()
	for _, p := range pieces {
		e.code.count(e.tokens[:find(e, src, p.at, p.end)], src)
	}
	return e.code.build()
}

// block writes the first n tokens as a block, or a stored block of src[at:end] if that is shorter.
func (e *Encoder) block(w *bitWriter, src []byte, at, end, n int, last bool) {
	e.code.clear()
	e.code.count(e.tokens[:n], src)
	bits := e.code.build()
	if stored := end - at + storedHead; bits >= 8*stored {
		w.grow(stored + 1)
		w.stored(src[at:end], last)
		return
	}
	w.grow(bits/8 + 1)
	e.code.entries()
	w.header(&e.code, last)
	w.tokens(&e.code, e.tokens[:n], src)
	w.word(e.code.words[endOfBlock])
}

// grow provides memory for n bytes and for what the last flush writes beyond them.
func (w *bitWriter) grow(n int) {
	w.out = slices.Grow(w.out[:w.at], n+16)
	w.out = w.out[:cap(w.out)]
}

// storedHead is the size of a stored block's two lengths.
const storedHead = 4

// stored writes p as a stored block.
func (w *bitWriter) stored(p []byte, last bool) {
	head := uint64(0)
	if last {
		head = 1
	}
	w.add(head, 3)
	w.align()
	w.add(uint64(len(p)), 16)
	w.add(uint64(len(p))^0xffff, 16)
	w.at += copy(w.out[w.at:], p)
}
