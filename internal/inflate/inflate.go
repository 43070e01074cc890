// Package inflate decodes complete zlib streams in memory into memory of known size: the tiles of
// rasters. [Decoder] decodes one stream, [Pair] two at once.
//
// It complements github.com/klauspost/compress/flate, because decoding is the largest part of a job
// on compressed rasters, and a reader of streams checks at every byte what is known of a tile from
// the start. Reading from a stream, dictionaries, gzip and bare deflate data are left to that
// library. docs/benchmarks/inflate.md compares the speed with that of libdeflate.
//
// The techniques are those of libdeflate: a buffer of 64 bits that is filled by one load, tables
// whose entries describe a word completely, one loop that does not check the ends and one that
// does. Entries for a literal and what follows it, another one or a match, are new: in a scene's
// noise they alternate at random, which no branch predictor predicts. On amd64 the loop is in
// assembly, which decodes tiles 1.1 to 1.4 times as fast as the loop in Go does. Two others take
// turns at the symbols of two streams, since a processor mostly waits for an entry of a table.
package inflate

import (
	"encoding/binary"
	"errors"

	"leat/internal/adler"
)

// Reasons for refusing a stream.
var (
	ErrHeader    = errors.New("this is not the beginning of a zlib stream")
	ErrDamaged   = errors.New("damaged data")
	ErrTruncated = errors.New("the stream breaks off")
	ErrLong      = errors.New("the stream is longer than the destination")
	ErrChecksum  = errors.New("the checksum does not fit the data")
)

// Decoder holds the tables of a stream's codes, some 64 KiB, so that decoding takes no memory of
// its own. The zero value is ready. A Decoder is for one goroutine at a time; it keeps nothing of a
// stream for the next.
type Decoder struct {
	lit  [litSize]uint32
	dist [distSize]uint32
	lens [256]uint8 // bits of the literals' words

	litBits uint // how many of the next bits are an index in lit

	// Of the code that is being built.
	order  order
	single [1 << (manyBits - 1)]uint32
	joints [1 << (manyBits - 1)]joint

	in, out int    // bytes of the source that were taken, of the target that were written
	sum     uint32 // the checksum of the first summed bytes
	summed  int
	buf     uint64 // the next bits, the first one lowest
	have    uint   // how many of them are counted as taken, at most 64
	fixed   bool   // the tables are those of the fixed codes
	mixed   bool   // literals and short matches take turns at random in the block
	filled  bool   // most bytes of the block are of the longest matches

	portable      bool // tests use the loop in Go
	always, never bool // tests take all blocks, or none, as mixed, and none as filled
}

// Zlib decodes the zlib stream (RFC 1950) at the start of src into dst and returns how many bytes
// it held; what follows the stream is ignored. A stream that holds less than dst is not an error.
// One that holds more is ErrLong, with dst full. The Adler-32 sum is checked over all that was
// written; a preset dictionary is refused as ErrHeader. After an error n is the number of bytes
// decoded up to there. dst beyond n may have been written to. dst and src must not overlap.
func (d *Decoder) Zlib(dst, src []byte) (n int, err error) {
	if err := d.start(src); err != nil {
		return 0, err
	}
	for last, symbols := false, false; !last; {
		if last, symbols, err = d.block(dst, src); err == nil && symbols {
			err = d.symbols(dst, src)
		}
		if err != nil {
			return d.out, err
		}
	}
	return d.out, d.end(dst, src)
}

// start checks the header of a stream.
func (d *Decoder) start(src []byte) error {
	d.in, d.out, d.buf, d.have, d.fixed = 2, 0, 0, 0, false
	d.sum, d.summed = 1, 0
	// Method 8, a window of at most 32 KiB, no dictionary.
	if len(src) < 2 || src[0]&0x0f != 8 || src[0]>>4 > 7 || binary.BigEndian.Uint16(src)%31 != 0 || src[1]&0x20 != 0 {
		return ErrHeader
	}
	return nil
}

// end checks the sum at the end of a stream.
func (d *Decoder) end(dst, src []byte) error {
	d.alignToByte()
	if len(src)-d.in < 4 {
		return ErrTruncated
	}
	if binary.BigEndian.Uint32(src[d.in:]) != adler.Update(d.sum, dst[d.summed:d.out]) {
		return ErrChecksum
	}
	return nil
}

// sumUp continues the checksum, of bytes that are still in the processor's cache.
func (d *Decoder) sumUp(dst []byte) {
	if n := (d.out - d.summed) &^ (sumStep - 1); n > 0 {
		d.sum = adler.Update(d.sum, dst[d.summed:d.summed+n])
		d.summed += n
	}
}

// block reads the head of a block. It reports whether the block is the last, and whether symbols
// follow: a stored block is copied.
func (d *Decoder) block(dst, src []byte) (last, symbols bool, err error) {
	head, err := d.bits(src, 3)
	if err != nil {
		return false, false, err
	}
	last = head&1 != 0
	switch head >> 1 {
	case 0:
		return last, false, d.stored(dst, src)
	case 1:
		if !d.fixed {
			d.litBits = manyBits
			d.order.sort(fixedLens[:288])
			build(d.lit[:], d.litBits, litSymbols[:], &d.order)
			d.join()
			d.order.sort(fixedLens[288:])
			build(d.dist[:], distBits, distSymbols[:], &d.order)
			copy(d.lens[:], fixedLens[:])
			d.mixed, d.filled = d.always, false
		}
		d.fixed = true
	case 2:
		d.fixed = false
		err = d.readCodes(src)
	default:
		err = ErrDamaged
	}
	return last, true, err
}

// symbols decodes to the end of a block.
func (d *Decoder) symbols(dst, src []byte) error {
	if end, err := d.fast(dst, src, len(dst)); end || err != nil {
		return err
	}
	return d.careful(dst, src)
}

// refill takes bytes until 57 bits are there or the source ends.
func (d *Decoder) refill(src []byte) {
	for d.have <= 56 && d.in < len(src) {
		d.buf |= uint64(src[d.in]) << d.have
		d.in++
		d.have += 8
	}
}

// bits takes the next n bits, at most 16.
func (d *Decoder) bits(src []byte, n uint) (uint, error) {
	d.refill(src)
	if n > d.have {
		return 0, ErrTruncated
	}
	v := uint(d.buf) & (1<<n - 1)
	d.drop(n)
	return v, nil
}

func (d *Decoder) drop(n uint) {
	d.buf >>= n & 63
	d.have -= n
}

// alignToByte drops the rest of a byte and returns the whole bytes that were taken ahead.
func (d *Decoder) alignToByte() {
	d.in -= int(d.have >> 3)
	d.buf, d.have = 0, 0
}

func (d *Decoder) stored(dst, src []byte) error {
	d.alignToByte()
	if len(src)-d.in < 4 {
		return ErrTruncated
	}
	size := binary.LittleEndian.Uint16(src[d.in:])
	if ^size != binary.LittleEndian.Uint16(src[d.in+2:]) {
		return ErrDamaged
	}
	d.in += 4
	data := src[d.in:min(d.in+int(size), len(src))]
	n := copy(dst[d.out:], data)
	d.in += n
	d.out += n
	switch {
	case n < len(data):
		return ErrLong
	case n < int(size):
		return ErrTruncated
	}
	return nil
}

// metaOrder is the order in which the lengths of the code lengths' own words stand.
var metaOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// readCodes reads the codes that stand before a block and makes their tables.
func (d *Decoder) readCodes(src []byte) error {
	head, err := d.bits(src, 14)
	if err != nil {
		return err
	}
	lits, dists, metas := int(head&31)+257, int(head>>5&31)+1, int(head>>10)+4
	if lits > 286 || dists > 30 {
		return ErrDamaged
	}
	// The lengths of the codes' words are coded themselves.
	var lens [286 + 30]uint8
	for _, s := range metaOrder[:metas] {
		n, err := d.bits(src, 3)
		if err != nil {
			return err
		}
		lens[s] = uint8(n)
	}
	var table [1 << metaBits]uint32
	if !d.order.sort(lens[:19]) {
		return ErrDamaged
	}
	build(table[:], metaBits, litSymbols[:], &d.order)
	clear(lens[:19])
	for i := 0; i < lits+dists; {
		d.refill(src)
		e := table[d.buf%(1<<metaBits)]
		if e&literal == 0 {
			return ErrDamaged
		}
		if uint(e&dropMask) > d.have {
			return ErrTruncated
		}
		d.drop(uint(e & dropMask))
		var value uint8
		var times, more uint
		switch s := uint8(e >> byteAt); s {
		case 16:
			if i == 0 {
				return ErrDamaged
			}
			value, times, more = lens[i-1], 3, 2
		case 17:
			times, more = 3, 3
		case 18:
			times, more = 11, 7
		default:
			lens[i] = s
			i++
			continue
		}
		n, err := d.bits(src, more)
		if err != nil {
			return err
		}
		end := i + int(times+n)
		if end > lits+dists {
			return ErrDamaged
		}
		for ; value != 0 && i < end; i++ {
			lens[i] = value
		}
		i = end
	}
	// A block can't end without the word for its end.
	if lens[endOfBlock] == 0 || !d.order.sort(lens[:lits]) {
		return ErrDamaged
	}
	d.litBits = manyBits
	if d.order.used <= fewWords {
		d.litBits = fewBits
	}
	d.litBits = min(d.litBits, 2*d.order.most) // enough for any two words
	build(d.lit[:], d.litBits, litSymbols[:], &d.order)
	copy(d.lens[:], lens[:])
	d.join()
	d.mixed = d.always || !d.never && isMixed(lens[endOfBlock+1:lits])
	d.filled = !d.always && !d.never && isFilled(lens[:lits])
	if !d.order.sort(lens[lits : lits+dists]) {
		return ErrDamaged
	}
	build(d.dist[:], distBits, distSymbols[:], &d.order)
	return nil
}
