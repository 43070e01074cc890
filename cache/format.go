package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A cache is one file, which docs/format/cache.md describes. All numbers are little-endian; words
// that several processes change are changed by atomic instructions on a shared mapping, or, in
// version 2, by plain stores of a process that has excluded the others.
//
//	0                  page 0, see below
//	4096               n slots of 8 bytes: 0, or the byte offset of the entry's record
//	4096+8n, up to 64  records, each at a multiple of 64, in order of arrival, some of them dead
//
// Page 0. Bytes not listed are zero. Checksums are CRC-32, in version 1 CRC-32C.
//
//	  0  8  magic "LEATCCH1"             40  4  durability: 0 none, 1 batch, 2 each
//	  8  4  version, 1 or 2              48 16  uuid
//	 12  4  flags: 1 created nameless    64 16  id of the boot in which it was created
//	 16  8  n                           124  4  checksum of bytes 0 to 124
//	 24  8  offset of the first record
//	 32  8  limit of the file in bytes, 0 for none
//	128  8  tail: where the next record begins; bit 63 set: frozen
//	136  8  exclusive wait: until when puts leave the write lock to others; version 2
//	192 80  counters, 8 bytes each: see the count constants
//	320 64  the seal of a preserved cache, see [seal]
//	448 80  counters of processes that change them by plain stores; version 2
//
// A record is a header of 64 bytes and the data.
//
//	 0  8  magic "LEATREC1"             24  8  its own offset in the file
//	 8  8  slot                         32  4  checksum of the data
//	16  8  length of the data           60  4  checksum of bytes 0 to 60
//
// The index may be sparse: a page of slots is allocated before its first slot is set. A record is
// complete before its slot is set, by one compare-and-swap. Nothing is ever moved, and the file
// never shrinks.
const (
	pageSize   = 4096 // of the index, independent of the machine's pages
	recordHead = 64
	align      = 64

	magic       = "LEATCCH1"
	recordMagic = "LEATREC1"
	sealMagic   = "PRESERVE"
	version     = 2 // of new files
	oldest      = 1 // version that can be opened

	flagNameless = 1

	fixedSize   = 124 // bytes of page 0 that its checksum covers
	tailAt      = 128
	waitAt      = 136
	countersAt  = 192
	sealAt      = 320
	sealSize    = 64
	plainAt     = 448
	frozen      = 1 << 63
	slotsOnPage = pageSize / 8

	// MaxSlots is the largest n.
	MaxSlots = 1 << 40

	maxOffset = 1 << 62 // no record ends beyond it, so that the sum of two offsets does not overflow
)

// The counters of page 0, in their order. They count for all processes since the cache was created.
const (
	countStored      = iota // entries
	countStoredBytes        // space of their records
	countFilled             // puts into a slot that was filled
	countLost               // puts that lost the race for a slot
	countFrozen             // puts refused because the cache was frozen
	countFull               // puts beyond the limit
	countNoSpace            // puts refused for lack of disk space
	countBad                // reads of damaged records
	countRepaired           // damaged records replaced
	countFaults             // faults of the mapping
	counters
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// wholeSum is the CRC-32 of any bytes followed by their CRC-32.
const wholeSum = 0x2144df1c

// table returns the polynomial of the checksums of a version.
func table(version uint32) *crc32.Table {
	if version == oldest {
		return castagnoli
	}
	return crc32.IEEETable
}

func roundUp(n, step int64) int64 { return (n + step - 1) &^ (step - 1) }

// firstRecord returns where the records of a cache with n slots begin.
func firstRecord(n int64) int64 { return roundUp(pageSize+8*n, align) }

// FileSize returns the size in bytes of a file with n slots and entries of these lengths, in order
// of arrival: the smallest Options.MaxBytes that fits them all.
func FileSize(n int64, lengths ...int64) int64 {
	size := firstRecord(n)
	for _, l := range lengths {
		size = roundUp(size, align) + recordHead + l
	}
	return size
}

// header is the part of page 0 that never changes.
type header struct {
	version    uint32
	flags      uint32
	n          int64
	maxBytes   int64
	durability Durability
	uuid       [16]byte
	boot       [16]byte
}

func (h *header) base() int64 { return firstRecord(h.n) }

// encode returns page 0 of a new cache.
func (h *header) encode() []byte {
	b := make([]byte, pageSize)
	copy(b, magic)
	le.PutUint32(b[8:], h.version)
	le.PutUint32(b[12:], h.flags)
	le.PutUint64(b[16:], uint64(h.n))
	le.PutUint64(b[24:], uint64(h.base()))
	le.PutUint64(b[32:], uint64(h.maxBytes))
	le.PutUint32(b[40:], uint32(h.durability))
	copy(b[48:], h.uuid[:])
	copy(b[64:], h.boot[:])
	le.PutUint32(b[fixedSize:], crc32.Checksum(b[:fixedSize], table(h.version)))
	le.PutUint64(b[tailAt:], uint64(h.base()))
	return b
}

// parseHeader parses page 0 of a file of the given size. The error wraps ErrFormat.
func parseHeader(b []byte, size int64) (h header, err error) {
	bad := func(text string, args ...any) (header, error) {
		return header{}, fmt.Errorf("%w: "+text, append([]any{ErrFormat}, args...)...)
	}
	switch {
	case len(b) < 8 || string(b[:7]) != magic[:7]:
		return bad("another kind of file")
	case string(b[:8]) != magic || len(b) >= 12 && le.Uint32(b[8:]) > version:
		return bad("made by a newer leat")
	case len(b) < pageSize:
		return bad("cut off within its first page")
	case le.Uint32(b[8:]) < oldest:
		return bad("damaged first page (version %d, expected %d to %d)", le.Uint32(b[8:]), oldest, version)
	case le.Uint32(b[fixedSize:]) != crc32.Checksum(b[:fixedSize], table(le.Uint32(b[8:]))):
		return bad("damaged first page")
	}
	n := le.Uint64(b[16:])
	if n < 1 || n > MaxSlots || int64(le.Uint64(b[24:])) != firstRecord(int64(n)) {
		return bad("invalid first page (%d slots)", n)
	}
	h = header{
		version: le.Uint32(b[8:]), flags: le.Uint32(b[12:]), n: int64(n), maxBytes: int64(le.Uint64(b[32:])),
		durability: Durability(le.Uint32(b[40:])), uuid: [16]byte(b[48:]), boot: [16]byte(b[64:]),
	}
	tail := int64(le.Uint64(b[tailAt:]) &^ frozen)
	if size < h.base() {
		return bad("cut off: %d bytes, its %d slots alone take %d", size, n, h.base())
	}
	if h.maxBytes < 0 || h.durability > DurabilityEach || tail < h.base() || tail%align != 0 || tail > maxOffset {
		return bad("invalid first page")
	}
	return h, nil
}

// record is the header of a record.
type record struct {
	slot   int64
	length int64
	offset int64
	sum    uint32
}

// end returns the offset just after the data.
func (r *record) end() int64 { return r.offset + recordHead + r.length }

// space returns how much of the file the record takes.
func (r *record) space() int64 { return roundUp(recordHead+r.length, align) }

func (r *record) encode(b *[recordHead]byte, t *crc32.Table) {
	copy(b[:], recordMagic)
	le.PutUint64(b[8:], uint64(r.slot))
	le.PutUint64(b[16:], uint64(r.length))
	le.PutUint64(b[24:], uint64(r.offset))
	le.PutUint32(b[32:], r.sum)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], t))
}

// parseRecord parses a record's header. It reports whether it is valid for that slot at that
// offset, which is 0 to maxOffset; a nil table omits its checksum. b may be shared memory.
func parseRecord(b []byte, slot, offset int64, t *crc32.Table) (r record, ok bool) {
	_ = b[recordHead-1]
	r = record{slot: slot, length: int64(le.Uint64(b[16:])), offset: offset, sum: le.Uint32(b[32:])}
	return r, string(b[:8]) == recordMagic && int64(le.Uint64(b[8:])) == slot && int64(le.Uint64(b[24:])) == offset &&
		r.length >= 0 && r.length <= maxOffset-recordHead-offset && isWhole(b, t)
}

// isWhole reports whether the checksum at the end of a record's header is that of the rest.
func isWhole(b []byte, t *crc32.Table) bool {
	switch t {
	case nil:
		return true
	case crc32.IEEETable: // 64 bytes take 18 ns, 60 take 28
		return crc32.Checksum(b[:recordHead], t) == wholeSum
	}
	return le.Uint32(b[60:]) == crc32.Checksum(b[:60], t)
}

// seal is what Preserve writes, at 320 of page 0:
//
//	0  8  magic "PRESERVE"        24  4  checksum of the filled slots: slot, offset, 8 bytes each
//	8  8  entries                 60  4  checksum of bytes 0 to 60
//	16 8  tail
type seal struct {
	entries int64
	tail    int64
	index   uint32
}

func (s *seal) encode(t *crc32.Table) []byte {
	b := make([]byte, sealSize)
	copy(b, sealMagic)
	le.PutUint64(b[8:], uint64(s.entries))
	le.PutUint64(b[16:], uint64(s.tail))
	le.PutUint32(b[24:], s.index)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], t))
	return b
}

// parseSeal parses the seal in page 0. It reports false if there is none or the cache is not
// frozen.
func parseSeal(page []byte) (s seal, ok bool) {
	b := page[sealAt : sealAt+sealSize]
	if string(b[:8]) != sealMagic || le.Uint32(b[60:]) != crc32.Checksum(b[:60], table(le.Uint32(page[8:]))) ||
		le.Uint64(page[tailAt:])&frozen == 0 {
		return seal{}, false
	}
	return seal{int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:])), le.Uint32(b[24:])}, true
}

// sumSlot adds a filled slot to the checksum of an index.
func sumSlot(sum uint32, t *crc32.Table, slot, offset int64) uint32 {
	var b [16]byte
	le.PutUint64(b[:], uint64(slot))
	le.PutUint64(b[8:], uint64(offset))
	return crc32.Update(sum, t, b[:])
}

// checkHost returns an error on machines whose atomic words are not little-endian.
func checkHost() error {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return fmt.Errorf("big-endian machine: %w", errors.ErrUnsupported)
	}
	return nil
}
