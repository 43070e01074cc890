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
	matchers   []matcher // from the quickest to the slowest
	fiveLast   bool      // the last is fiveBytes
	pixelsLast bool      // the last is pixels
	row        int

	table  [tableSize]uint16 // places modulo 65536
	tokens []uint32          // of a block
	code   code
}

// matcher divides src[at:end] into literals and matches. It stores their tokens in e.tokens and
// returns how many elements it stored. Matches may refer to bytes before at.
type matcher func(e *Encoder, src []byte, at, end int) int

const (
	// A slower matcher is chosen only if it makes the sample smaller by 1/saving.
	saving         = 500
	savingOfPixels = 50
	// The slowest matcher is tried only if a quicker one makes the sample smaller by 1/noisy.
	noisy = 500
)

// NewEncoder returns an encoder of data that o describes.
func NewEncoder(o Options) *Encoder {
	e := &Encoder{row: o.Row, tokens: make([]uint32, blockSize+16)}
	if o.Row <= 0 || o.Row >= window {
		e.row = 1
	}
	e.matchers = []matcher{(*Encoder).runs, (*Encoder).sixBytes}
	switch {
	case o.Predictor == 3 || o.Predictor == 2 && o.Element > 2:
		e.matchers, e.fiveLast = append(e.matchers, (*Encoder).fiveBytes), true
	case o.Predictor == 2 && o.Element == 2:
		e.matchers, e.pixelsLast = append(e.matchers, (*Encoder).pixels), true
	default:
		e.matchers = append(e.matchers, (*Encoder).rows)
	}
	return e
}

// AppendZlib appends a zlib stream (RFC 1950) of src to dst and returns the result. The stream
// depends on src and the options only. It has at most len(src)+len(src)/1000+64 bytes.
func (e *Encoder) AppendZlib(dst, src []byte) []byte {
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
	return binary.BigEndian.AppendUint32(w.out[:w.at], adler.Checksum(src))
}

// choose returns the matcher for src[at:end]: it compares the sizes to which each encodes a sample.
// This is the beginning, middle and end, since tiles at the edges of rasters end with padding.
func (e *Encoder) choose(src []byte, at, end int) matcher {
	const pieces, shortest = 3, 8 << 10
	var sample [pieces][2]int
	if n := end - at; n <= pieces*shortest {
		sample[0] = [2]int{at, end}
	} else {
		length := max(shortest, n/96&^7)
		for k := range sample {
			from := at + k*(n-length)/(pieces-1)&^7
			sample[k] = [2]int{from, from + length}
		}
	}
	raw := 0
	for _, p := range sample {
		raw += 8 * (p[1] - p[0])
	}
	best, size := 0, 0
	for i, m := range e.matchers {
		if i == 2 && (size > raw-raw/noisy || e.fiveLast && best == 0) {
			break // the slowest matcher would find nothing
		}
		least := saving
		e.code.clear()
		for _, p := range sample {
			if i == 2 && e.pixelsLast {
				// Pixels repeat at great distances, so the table needs what comes before the
				// sample. This matcher takes three times as long and must save more.
				e.enterPixels(src, max(at, p[0]-window/2), p[0])
				least = savingOfPixels
			}
			e.code.count(e.tokens[:m(e, src, p[0], p[1])], src)
		}
		if n := e.code.build(); i == 0 || n < size-size/least {
			best, size = i, n
		}
	}
	return e.matchers[best]
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
