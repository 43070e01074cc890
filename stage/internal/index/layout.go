package index

import (
	"sync/atomic"
	"unsafe"

	"leat/stage/internal/store"
)

// Layout of the index file. Numbers have the machine's byte order: a stage belongs to one machine.
const (
	magic      = "leatstg1"
	headerSize = 4096
	buckets    = 1 << 18 // 4 bytes each; ten million objects make chains of 40
	bucketsAt  = headerSize
	recordsAt  = bucketsAt + 4*buckets
	recordSize = 256
	chunkCount = 4096 // records mapped and allocated together: 1 MiB
	chunkSize  = chunkCount * recordSize
	maxChunks  = 1 << 14
)

// header is the first page of the index. Frequently changed counts have cache lines of their own.
type header struct {
	magic    [8]byte
	record   uint64
	buckets  uint64
	boot     [16]byte
	epoch    atomic.Uint32 // of the machine's boot; records of an earlier one are verified before they are served
	_        [128 - 44]byte
	bytes    atomic.Int64 // disk space of objects, including copies in progress
	_        [56]byte
	files    atomic.Int64 // objects, including copies in progress
	_        [56]byte
	next     atomic.Uint32 // the first record never used
	capacity atomic.Uint32 // allocated records
	_        [56]byte
	free     atomic.Uint64 // count<<32 | first free record; the count prevents ABA errors
	_        [56]byte
	joins    atomic.Uint64 // incremented when a process joins or leaves
	// not 0 if a process died or failed to free bytes: counts may be too high, and data may have no
	// record
	unclean atomic.Uint32
	_       [52]byte
	place   atomic.Uint64 // the last number assigned to a segment or file
	hand    atomic.Uint32 // where the next search for old objects begins
	_       [4]byte
	// about the longest recent time between two uses of an object, in nanoseconds; 0: none was used
	// twice
	interval atomic.Int64
	_        [40]byte
	counters [Counters]atomic.Int64 // of processes that have ended
}

// Counters is the number of counters, per process and for the directory.
const Counters = 32

// States of a record, the low byte of seq. The next useBits bits count its uses. The upper 32 are
// the checksum of the fields that stay constant during a use, or 0 in records of earlier versions
// of leat.
const (
	stateFree     = iota
	stateValid    // its object can be found
	stateStale    // replaced or damaged; its bytes stay until nobody uses it
	stateEvicting // being freed by the holder of its key's lock; without one, that process died
	stateMore     // holds text of another record
	stateBits     = 8
	useBits       = 24
	sumShift      = stateBits + useBits
)

// withState returns seq in another state.
func withState(seq, state uint64) uint64 { return seq&^(1<<stateBits-1) | state }

// nextUse returns a record's seq for its next use, without a checksum.
func nextUse(seq, state uint64) uint64 { return (seq>>stateBits+1)&(1<<useBits-1)<<stateBits | state }

// record describes one object.
type record struct {
	seq     atomic.Uint64
	next    atomic.Uint32 // in the chain of its bucket, or in the free list
	more    atomic.Uint32 // the record with more of its text
	key     Key
	version Version
	size    int64
	charge  int64
	place   Place
	crc     uint32
	epoch   atomic.Uint32
	used    atomic.Int64 // last use, Unix time in nanoseconds
	checked atomic.Int64 // last comparison with the source, likewise
	changed int64        // modified at the source, likewise; 0: unknown
	tag     uint32       // length of the entity tag, the end of the text
	length  uint32       // total length of the text
	text    [textHere]byte
}

const (
	textHere = recordSize - 136
	textMore = recordSize - 16 // in a record of more text only, from byte 16
)

// Layout of a process's file.
const (
	procMagic  = "leatprc1"
	copiesAt   = 4096
	copySize   = 64
	MaxCopies  = 1024 // concurrent copies of one process
	pinsAt     = copiesAt + MaxCopies*copySize
	maxPins    = 1 << 20
	pinsStep   = 1 << 16 // bytes allocated together
	procSize   = pinsAt + 4*maxPins
	maxTextLen = 1 << 15
)

// procHeader is the first page of a process's file.
type procHeader struct {
	magic    [8]byte
	pid      int64 // for diagnosis, and to find stopped processes
	started  int64 // Unix time in nanoseconds, for diagnosis
	_        [40]byte
	pins     atomic.Uint32 // pins with lower numbers may be set
	_        [60]byte
	counters [Counters]atomic.Int64
}

// copying is a copy in progress: the space that it has reserved, and the place where it writes.
type copying struct {
	charge atomic.Int64 // 0: free
	place  Place
	_      [copySize - 40]byte
}

// Place is where the bytes of an object are.
type Place = store.Place

func _() {
	var r [1]struct{}
	_ = r[recordSize-unsafe.Sizeof(record{})]
	_ = r[unsafe.Sizeof(record{})-recordSize]
	_ = r[copySize-unsafe.Sizeof(copying{})]
	_ = r[unsafe.Sizeof(copying{})-copySize]
}

func at[T any](b []byte, offset int) *T { return (*T)(unsafe.Pointer(&b[offset])) }
