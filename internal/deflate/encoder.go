package deflate

import (
	"encoding/binary"
	"slices"

	"leat/internal/adler"
)

// Sizes in bytes. Smaller blocks gain nothing, and larger ones make noise 0.1 % larger.
const (
	blockSize   = 64 << 10
	segmentSize = 16 * blockSize // of the blocks that share a matcher
)

// exact is the number of bits up to which estimated sizes of blocks are compared as they are.
// Larger blocks are joined only if this saves a little of what is above.
const exact = 1 << 16

// mostTokens is the number of elements that a matcher stores at most for blockSize bytes, and a few
// more that it writes: a literal and a match, which are two, have at least five bytes.
const mostTokens = blockSize/2 + 64

// tableSize is the number of places that the matchers remember, in 128 KiB.
const tableSize = 1 << 16

// Options describes the bytes to encode.
type Options struct {
	Element   int // size of an element in bytes, 0 if unknown
	Row       int // size of a row in bytes, 0 if unknown
	Predictor int // TIFF's predictor that the bytes went through: 2, 3, or another number for none
}

// Encoder encodes streams. It holds 420 KiB of tables and tokens, so encoding allocates only the
// stream. An Encoder is for one goroutine at a time. Its streams do not depend on one another.
type Encoder struct {
	kind    kind
	row     int
	step    int    // see elements
	lazy    bool   // elements looks for a longer match at the next element
	cleared int    // places of table
	sum     uint32 // the checksum of the bytes that have tokens

	table  [tableSize]uint16 // places modulo 65536
	tokens []uint32          // of a block, and of the next 64 KiB
	code   code
	next   counts   // of the next 64 KiB
	pieces [3]piece // of a sample

	candidates candidates // of pixels
}

// matcher divides src[at:end] into literals and matches. It stores their tokens in tokens and
// returns how many elements it stored. Matches may refer to bytes before at.
type matcher func(e *Encoder, tokens []uint32, src []byte, at, end int) int

// kind is the kind of data, by which the slowest matcher is selected.
type kind int

const (
	other  kind = iota
	planes      // the bytes of floats after predictor 3
	pixels      // differences of 16 bits
)

// A matcher that takes longer is chosen only if it makes the sample smaller by 1/saving. The last
// ones, which take up to four times as long, must save more.
const (
	saving           = 500
	savingOfElements = 100
	savingOfPixels   = 40
	savingInMasks    = 30
	savingOfSmooth   = 20

	savingIfInterpolated = 8 // by matches of pixels, if longer ones may be better
)

// Limits of the size to which runs encodes a sample, as a part of its own size.
const (
	blank  = 128 // below 1/128 there is only nodata; in small tiles elements save a byte
	empty  = 32  // below 1/32 there are large areas without data
	mixed  = 24  // below 1/24, in masks, runs are often better than elements
	full   = 4   // below 1/4 the data repeat, and above 3/4, in scenes, pixels repeat too seldom
	smooth = 3   // below 3/8, 16-bit pixels are often heights, whose differences repeat in pairs
	noisy  = 500 // above 1-1/500, matches of elements are not tried
)

// NewEncoder returns an encoder of data that o describes.
func NewEncoder(o Options) *Encoder {
	e := &Encoder{tokens: make([]uint32, 2*mostTokens), code: code{vectors: fastest}}
	e.Reset(o)
	return e
}

// Reset makes e an encoder of data that o describes, in the memory that it has.
func (e *Encoder) Reset(o Options) {
	e.kind, e.row, e.step, e.lazy = other, o.Row, 1, false
	if o.Row <= 0 || o.Row >= window {
		e.row = 1
	}
	switch o.Element {
	case 2, 4, 8:
		e.step = o.Element
	case 16:
		e.step = 8
	}
	switch {
	case o.Predictor == 3:
		e.kind = planes
	case o.Predictor == 2 && o.Element == 2:
		e.kind = pixels
	default:
		e.lazy = e.step == 1 || e.step == 4
	}
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
	e.cleared, e.sum = 0, 1
	for at := 0; at < len(src); at += segmentSize {
		end := min(at+segmentSize, len(src))
		e.segment(&w, src, at, end, e.choose(src, at, end))
	}
	w.align()
	out := binary.BigEndian.AppendUint32(w.out[:w.at], e.sum)
	noteWritten(out[len(dst):])
	return out
}

// segment writes src[at:end] as blocks. A block takes on the next bytes if one code for all takes
// less space than two codes and the description of another.
func (e *Encoder) segment(w *bitWriter, src []byte, at, end int, find matcher) {
	// tokens[:n] are of a block from at on. If counted, e.code has their counts, else they are few.
	n, size, counted := 0, 0, true
	for to := at; to < end; {
		if n+mostTokens > len(e.tokens) {
			e.block(w, src, at, to, n, false)
			at, n = to, 0
		}
		next := min(to+blockSize, end)
		k := find(e, e.tokens[n:], src, to, next)
		e.sum = adler.Update(e.sum, src[to:next]) // which are in the processor's cache
		if (n == 0 || !counted) && isFew(e.tokens[:n+k]) {
			n, to, counted = n+k, next, false
			continue
		}
		if !counted {
			size, counted = e.code.of(e.tokens[:n], src, e.code.vectors), true
		}
		more := e.next.of(e.tokens[n:n+k], src, e.code.vectors)
		if n > 0 {
			e.next.add(&e.code.counts)
			body, head := e.next.size()
			if joined := body + head; joined > size+more-max(size+more-exact, 0)>>11 {
				e.next.subtract(&e.code.counts)
				e.block(w, src, at, to, n, false)
				copy(e.tokens, e.tokens[n:n+k])
				at, n = to, 0
			} else {
				more = joined
			}
		}
		e.code.counts, size = e.next, more
		n, to = n+k, next
	}
	if !counted {
		e.code.of(e.tokens[:n], src, e.code.vectors)
	}
	e.block(w, src, at, end, n, end == len(src))
}

// isFew reports whether tokens are so few that a code of their own would take more than it saves.
func isFew(tokens []uint32) bool {
	const few = 1024
	n := len(tokens)
	for i := 0; i < len(tokens) && n < few; i++ {
		if t := tokens[i]; t >= literalRun {
			i++
			n += int(t &^ literalRun)
		}
	}
	return n < few
}

// places returns the first n places of the table, in which matchers store places. Streams start
// with an empty one.
func (e *Encoder) places(n int) []uint16 {
	if e.cleared < n {
		clear(e.table[e.cleared:n])
		e.cleared = n
	}
	return e.table[:n]
}

// choose returns the matcher for src[at:end]: it compares the sizes to which each encodes a sample.
func (e *Encoder) choose(src []byte, at, end int) matcher {
	s := e.newSample(src, at, end)
	body, head := s.size((*Encoder).runs)
	best, size := matcher((*Encoder).runs), body+head
	try := func(m matcher, saving int) bool {
		body, head := s.size(m)
		if body+head >= size-size/saving {
			return false
		}
		best, size = m, body+head
		return true
	}
	if body < s.raw/empty {
		if try((*Encoder).sparse, saving) && e.kind != other {
			return best
		}
		if e.kind == pixels && end-at >= blockSize && body < s.raw/blank {
			return best
		}
	}
	if e.kind != planes && body < s.raw/empty {
		try((*Encoder).elements, saving)
		return best
	}
	if e.kind != planes && e.step == 1 && body < s.raw/mixed {
		try((*Encoder).elements, savingInMasks)
		return best
	}
	gaps := e.kind == pixels && size < s.raw/8*smooth && s.hasNoiseAndGaps()
	if size < s.raw/full && e.kind != planes && !gaps {
		return (*Encoder).elements
	}
	repeats := try((*Encoder).sixBytes, saving)
	switch {
	case e.kind == planes:
		if repeats {
			try((*Encoder).fiveBytes, saving)
		}
	case e.kind == pixels && (repeats || size <= s.raw/full*(full-1)):
		if repeats && size < s.raw/8*smooth && !gaps && try((*Encoder).elementsAfterWindow, savingOfSmooth) {
			return (*Encoder).elements // pixels save nothing then
		}
		if smaller, ok := s.saves((*Encoder).pixelsInContext, size, savingOfPixels); ok {
			best = (*Encoder).pixels
			if smaller < size-size/savingIfInterpolated {
				size = smaller
				if try((*Encoder).fiveBytesInContext, savingOfSmooth) {
					best = (*Encoder).fiveBytes
				}
			}
			e.cleared = 0 // the sample's places are after at
		}
	case e.kind == other && e.step == 1 && size < s.raw-s.raw/noisy:
		try((*Encoder).elements, savingOfElements)
	case e.kind == other && size < s.raw-s.raw/noisy:
		if try((*Encoder).elementsAfterWindow, savingOfElements) {
			best = (*Encoder).elements
		}
	}
	return best
}

// piece is a part of a sample: places in the source.
type piece struct{ at, end int }

// sample is a part of src by which a matcher is chosen.
type sample struct {
	e      *Encoder
	src    []byte
	pieces []piece
	raw    int // bits of a block
}

// newSample returns a sample of src[at:end]. Its pieces are near the beginning, in the middle, and
// at the end: tiles at the edges of rasters end with padding.
func (e *Encoder) newSample(src []byte, at, end int) sample {
	const number, shortest = len(e.pieces), 2 << 10
	n := end - at
	s := sample{e: e, src: src, pieces: e.pieces[:0], raw: 8 * min(n, blockSize)}
	if n <= number*shortest {
		s.pieces = append(s.pieces, piece{at, end})
		return s
	}
	length := max(shortest, n/96&^7)
	// Matchers that find repetitions at great distances would be underrated by a first piece with
	// few bytes before it.
	first := min(window, (n-length)/4)
	for k := range number {
		from := at + (first+k*(n-length-first)/(number-1))&^7
		s.pieces = append(s.pieces, piece{from, from + length})
	}
	return s
}

// size returns about the number of bits to which a matcher would encode a block of bytes like the
// sample's, and that of its header.
func (s *sample) size(find matcher) (body, head int) {
	s.e.next.clear()
	return s.sizeWith(s.pieces, find, 0)
}

// sizeWith is size after pieces have been added to the counts of before bytes.
func (s *sample) sizeWith(pieces []piece, find matcher, before int) (body, head int) {
	c, n := &s.e.next, 0
	for _, p := range pieces {
		n += find(s.e, s.e.tokens[n:], s.src, p.at, p.end)
		before += p.end - p.at
	}
	c.count(s.e.tokens[:n], s.src, s.e.code.vectors)
	body, head = c.size()
	return body * (s.raw / 8) / before, head
}

// sizeOfPiece is the body of size for one piece, by runs.
func (s *sample) sizeOfPiece(k int) int {
	s.e.next.clear()
	body, _ := s.sizeWith(s.pieces[k:k+1], (*Encoder).runs, 0)
	return body
}

// hasNoiseAndGaps reports whether a piece of pixels is noise and another one has next to nothing.
// Both together would be taken for smooth pixels by their size.
func (s *sample) hasNoiseAndGaps() bool {
	least, most := s.raw, 0
	for k := range s.pieces {
		body := s.sizeOfPiece(k)
		least, most = min(least, body), max(most, body)
	}
	return least < s.raw/empty && most > s.raw/8*smooth
}

// saves returns the size by the matcher of pixels, and whether it is smaller than size by 1/saving.
// It first looks only at the piece that runs shrinks least, where a sixth of that must be saved.
// Elements may save much in one piece and nothing in another, so all pieces decide about them.
func (s *sample) saves(find matcher, size, saving int) (int, bool) {
	most, n := 0, 0
	for k, p := range s.pieces {
		if body := s.sizeOfPiece(k); body > most {
			s.pieces[0], s.pieces[k] = p, s.pieces[0]
			most, n = body, p.end-p.at
		}
	}
	s.e.next.clear()
	if body, _ := s.sizeWith(s.pieces[:1], find, 0); body > most-most/(6*saving) {
		return size, false
	}
	body, head := s.sizeWith(s.pieces[1:], find, n)
	return body + head, body+head < size-size/saving
}

// block writes the first n tokens, whose counts are in e.code, as a block, or a stored block of
// src[at:end] if that is shorter.
func (e *Encoder) block(w *bitWriter, src []byte, at, end, n int, last bool) {
	bits, head := e.code.build()
	bits += head
	if stored := storedSize(end - at); bits >= 8*stored {
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

// maxStored is the largest size of a stored block.
const maxStored = 65535

// storedSize returns the number of bytes of stored blocks of n bytes, up to one.
func storedSize(n int) int { return n + (n+maxStored-1)/maxStored*5 }

// stored writes p as stored blocks.
func (w *bitWriter) stored(p []byte, last bool) {
	for len(p) > 0 {
		n := min(len(p), maxStored)
		head := uint64(0)
		if last && n == len(p) {
			head = 1
		}
		w.add(head, 3)
		w.align()
		w.add(uint64(n), 16)
		w.add(uint64(n)^0xffff, 16)
		w.at += copy(w.out[w.at:], p[:n])
		p = p[n:]
	}
}
