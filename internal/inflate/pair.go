package inflate

// noDistance is the distance that pairMixedAVX2 takes where there is none: at least as many bytes
// must be there.
const noDistance = 256

// leastLengths is the least share of lengths among the symbols, in 32768ths, with which
// pairMixedAVX2 is the faster loop. It takes 1.2 times as long as pairAVX2 at half of that, and 0.8
// times at twice that.
const leastLengths = 8192

// mostLengths is the largest share of lengths. Above it, they seldom take turns with literals:
// pairAVX2 decodes smooth heights and quality bits 1.04 to 1.08 times as fast.
const mostLengths = 28672

// longMatch is the index of the first length code for matches of 11 bytes or more, whose bytes take
// longer to copy than their words to look up.
const longMatch = 8

// isMixed reports whether literals and lengths take turns at random, and most matches are short, as
// the words of the length codes say.
func isMixed(lens []uint8) bool {
	share, long := 0, 0
	for i, l := range lens {
		if l == 0 {
			continue
		}
		n := 1 << (longest - l)
		share += n
		if i >= longMatch {
			long += n
		}
	}
	return share >= leastLengths && share <= mostLengths && long <= share/3
}

// isFilled reports whether at least a quarter of the symbols are matches of 258 bytes, as the words
// of lengths and literals say.
func isFilled(lens []uint8) bool {
	const symbol = 285
	return len(lens) > symbol && lens[symbol] != 0 && lens[symbol] <= 2
}

// Pair decodes two streams at once. Decoding one, a processor mostly waits for the entry of a
// table, which says where the next one is; the entries of two streams do not wait for each other.
// The zero value is ready. A Pair is for one goroutine at a time.
type Pair struct{ a, b Decoder }

// One decodes a single stream as [Decoder.Zlib] does.
func (p *Pair) One(dst, src []byte) (n int, err error) { return p.a.Zlib(dst, src) }

// Both decodes srcA into dstA and srcB into dstB, each with the result that [Decoder.Zlib] has.
func (p *Pair) Both(dstA, srcA, dstB, srcB []byte) (nA int, errA error, nB int, errB error) {
	a, b := stream{d: &p.a, dst: dstA, src: srcA}, stream{d: &p.b, dst: dstB, src: srcB}
	a.stop(p.a.start(srcA))
	b.stop(p.b.start(srcB))
	for a.prepare() && b.prepare() {
		p.symbols(&a, &b)
	}
	a.finish()
	b.finish()
	return p.a.out, a.err, p.b.out, b.err
}

// symbols decodes symbols of both streams until the block of one ends, or one is near an end.
func (p *Pair) symbols(a, b *stream) {
	dstA, outA, srcA, inA := &a.dst[0], a.outEnd(), &a.src[0], len(a.src)-inSpace
	dstB, outB, srcB, inB := &b.dst[0], b.outEnd(), &b.src[0], len(b.src)-inSpace
	var endA, endB ending
	if a.d.mixed && b.d.mixed {
		endA, endB = pairMixedAVX2(p, dstA, outA, srcA, inA, dstB, outB, srcB, inB)
	} else {
		endA, endB = pairAVX2(p, dstA, outA, srcA, inA, dstB, outB, srcB, inB)
	}
	a.ended(endA)
	b.ended(endB)
	a.d.sumUp(a.dst)
	b.d.sumUp(b.dst)
}

// stream is one of two streams.
type stream struct {
	d        *Decoder
	dst, src []byte
	symbols  bool // those of a block are next
	last     bool // the block that was begun is the last
	stopped  bool
	err      error
}

// stop ends a stream at an error.
func (s *stream) stop(err error) {
	if err != nil {
		s.err, s.stopped = err, true
	}
}

// prepare decodes until a loop of Pair can go on with the stream, and reports whether one can.
func (s *stream) prepare() bool {
	for !s.stopped {
		d := s.d
		switch {
		case !s.symbols:
			s.begin()
		case !hasAVX2 || d.portable || d.filled || d.in > len(s.src)-inSpace || d.out > len(s.dst)-outSpace:
			s.finishBlock()
		case d.mixed && d.out < noDistance:
			end, err := d.fast(s.dst, s.src, noDistance)
			s.symbols = !end
			s.stop(err)
		default:
			d.returnBytes()
			return true
		}
	}
	return false
}

// finish decodes what is left.
func (s *stream) finish() {
	for !s.stopped {
		if s.symbols {
			s.finishBlock()
		} else {
			s.begin()
		}
	}
}

// begin begins a block, or ends the stream behind the last one.
func (s *stream) begin() {
	if s.last {
		s.err, s.stopped = s.d.end(s.dst, s.src), true
		return
	}
	var err error
	s.last, s.symbols, err = s.d.block(s.dst, s.src)
	s.stop(err)
}

func (s *stream) finishBlock() {
	s.stop(s.d.symbols(s.dst, s.src))
	s.symbols = false
}

// outEnd gives the last byte of the target at which the loop may go on, for now.
func (s *stream) outEnd() int { return min(len(s.dst)-outSpace, s.d.out+stretchOfPair) }

// ended follows what the loop says.
func (s *stream) ended(e ending) {
	switch e {
	case blockEnded:
		s.symbols = false
	case damaged:
		s.stop(ErrDamaged)
	}
}
