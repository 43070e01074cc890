package ledger

import (
	"sync/atomic"
	"unsafe"

	"leat/stage/internal/shelf"
)

// Layout of the index file. All numbers are of the machine's byte order: a stage is of one machine.
const (
	magic      = "leatstg1"
	headerSize = 4096
	buckets    = 1 << 18 // 4 bytes each; ten million objects are chains of 40
	bucketsAt  = headerSize
	recordsAt  = bucketsAt + 4*buckets
	recordSize = 256
	chunkCount = 4096 // records that are mapped and allocated together: 1 MiB
	chunkSize  = chunkCount * recordSize
	maxChunks  = 1 << 14
)

// header is the first page of the index. Counts that are often changed have cache lines of their own.
type header struct {
	magic    [8]byte
	record   uint64
	buckets  uint64
	boot     [16]byte
	epoch    atomic.Uint32 // of the machine's boots; a record of an earlier one is verified before it is served
	_        [128 - 44]byte
	bytes    atomic.Int64 // that objects take on the disk, copies under way included
	_        [56]byte
	files    atomic.Int64 // objects, copies under way included
	_        [56]byte
	next     atomic.Uint32 // first record that was never used
	capacity atomic.Uint32 // records that are allocated
	_        [56]byte
	free     atomic.Uint64 // the first free record, and a count that tells one stack from another: count<<32 | record
	_        [56]byte
	joins    atomic.Uint64 // changes whenever a process comes or goes
	unclean  atomic.Uint32 // a process died, or could not free bytes: something may be counted that is not there, or be there without a record
	_        [52]byte
	place    atomic.Uint64 // the last number given out for a segment or file
	hand     atomic.Uint32 // where the next look for old objects begins
	_        [52]byte
	counters [Counters]atomic.Int64 // of processes that are gone
}

// Counters is how many numbers a process can count for itself and for the directory.
const Counters = 32

// States of a record, the low byte of seq; the rest counts its uses.
const (
	stateFree     = iota
	stateValid    // its object can be found
	stateStale    // replaced by another version, or damaged; its bytes are there until nobody uses it
	stateEvicting // its bytes are being freed by who holds its key's lock; if nobody does, somebody died
	stateMore     // more text of another record
	stateBits     = 8
)

// as is a record's seq in another state.
func as(seq, state uint64) uint64 { return seq&^(1<<stateBits-1) | state }

// again is a record's seq in its next use.
func again(seq, state uint64) uint64 { return (seq>>stateBits+1)<<stateBits | state }

// record is one object.
type record struct {
	seq     atomic.Uint64
	next    atomic.Uint32 // in the chain of its bucket, or of free records
	more    atomic.Uint32 // the record with more of its text
	key     Key
	version Version
	size    int64
	charge  int64
	place   Place
	crc     uint32
	epoch   atomic.Uint32
	used    atomic.Int64 // last, Unix time in nanoseconds
	checked atomic.Int64 // compared with its source, likewise
	changed int64        // at its source, likewise; 0: not known
	tag     uint32       // bytes of the entity tag, the last of the text
	length  uint32       // bytes of text in all
	text    [textHere]byte
}

const (
	textHere = recordSize - 136
	textMore = recordSize - 16 // of a record that only holds more text, from byte 16
)

// Layout of a process's file.
const (
	procMagic  = "leatprc1"
	copiesAt   = 4096
	copySize   = 64
	MaxCopies  = 1024 // that one process can have under way
	pinsAt     = copiesAt + MaxCopies*copySize
	maxPins    = 1 << 20
	pinsStep   = 1 << 16 // bytes that are allocated together
	procSize   = pinsAt + 4*maxPins
	maxTextLen = 1 << 15
)

// procHeader is the first page of a process's file.
type procHeader struct {
	magic    [8]byte
	pid      int64 // for people, and to find who is stopped
	started  int64 // Unix time in nanoseconds, for people
	_        [40]byte
	pins     atomic.Uint32 // pins below this may be set
	_        [60]byte
	counters [Counters]atomic.Int64
}

// copying is room that a process has reserved, and what it writes there.
type copying struct {
	charge atomic.Int64 // 0: nothing
	place  Place
	_      [copySize - 40]byte
}

// Place is where the bytes of an object lie.
type Place = shelf.Place

func _() {
	var r [1]struct{}
	_ = r[recordSize-unsafe.Sizeof(record{})]
	_ = r[unsafe.Sizeof(record{})-recordSize]
	_ = r[copySize-unsafe.Sizeof(copying{})]
	_ = r[unsafe.Sizeof(copying{})-copySize]
}

func at[T any](b []byte, offset int) *T { return (*T)(unsafe.Pointer(&b[offset])) }
