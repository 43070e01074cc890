package shm

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"unsafe"
)

// An object is one array in one file: a .npy whose data begin at a multiple of a page, and a tag
// that says what it is.
//
//	whole file:   [.npy header, padded to pages][data, padded to pages][tag, a page]
//	arena entry:  [tag, 64 bytes][.npy header, padded to 64][data, padded to 64]
//
// The tag of a whole file stands in the last page of the file, so that it is found from the file's
// size alone. NumPy ignores what follows the data. The file's size never changes.
const (
	pageSize = 4096
	tagSize  = 64
	tagMagic = "leat-shm"
	// version of the layout, for those who read it.
	tagVersion = 1
)

// What a tag stands for.
const (
	kindWhole = 1 + iota // a file of its own
	kindArena            // a file of many entries
	kindEntry            // one of them
)

// States of an object. They are stored in the tag, where every process sees them.
const (
	stateMaking uint32 = iota // nobody knows its handle yet
	stateOpen                 // others may write
	stateSealed               // nobody but the creator may write
	stateFreed                // the creator gave it up: no new reader is let in
	// Sealed and handed over, or about to be. The receiver can't write the state, so it no longer
	// says whether the array lives: that its handle leads to it does.
	stateHanded
)

// ident is what tells an object from all others, ever.
type ident [16]byte

func newIdent() ident {
	var id ident
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id ident) String() string { return hex.EncodeToString(id[:]) }

// tag is what an object says about itself. Offsets count from the object's begin.
//
//	0  8  magic          16 16 id                  48 8 bytes of data
//	8  2  version        32  8 size of the object  56 4 state (atomic, not in the checksum)
//	10 2  kind           40  8 offset of the data  60 4 zero
//	12 4  CRC-32C of the rest
type tag struct {
	kind   uint16
	id     ident
	size   int64
	data   int64
	length int64
	state  uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func tagSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:56])
}

// encode writes the tag to b, all but the state.
func (t *tag) encode(b []byte) {
	copy(b, tagMagic)
	binary.LittleEndian.PutUint16(b[8:], tagVersion)
	binary.LittleEndian.PutUint16(b[10:], t.kind)
	copy(b[16:], t.id[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(t.size))
	binary.LittleEndian.PutUint64(b[40:], uint64(t.data))
	binary.LittleEndian.PutUint64(b[48:], uint64(t.length))
	binary.LittleEndian.PutUint32(b[60:], 0)
	binary.LittleEndian.PutUint32(b[12:], tagSum(b))
}

// bytes is the tag as it stands in a file.
func (t *tag) bytes() []byte {
	b := make([]byte, tagSize)
	t.encode(b)
	binary.NativeEndian.PutUint32(b[56:], t.state)
	return b
}

// parseTag reads a tag. b may be shared with a process that writes what it likes: every byte is
// read once. The error wraps [ErrHandle].
func parseTag(b []byte) (tag, error) {
	if len(b) < tagSize {
		return tag{}, fmt.Errorf("%w: no room for a tag", ErrHandle)
	}
	var c [tagSize]byte
	copy(c[:], b)
	if string(c[:8]) != tagMagic {
		return tag{}, fmt.Errorf("%w: what it leads to is no array of leat", ErrHandle)
	}
	if v := binary.LittleEndian.Uint16(c[8:]); v != tagVersion {
		return tag{}, fmt.Errorf("%w: its array has layout %d, this leat knows %d: use the same leat on both sides",
			ErrHandle, v, tagVersion)
	}
	if binary.LittleEndian.Uint32(c[12:]) != tagSum(c[:]) {
		return tag{}, fmt.Errorf("%w: what it leads to is damaged", ErrHandle)
	}
	t := tag{
		kind:   binary.LittleEndian.Uint16(c[10:]),
		id:     ident(c[16:32]),
		size:   int64(binary.LittleEndian.Uint64(c[32:])),
		data:   int64(binary.LittleEndian.Uint64(c[40:])),
		length: int64(binary.LittleEndian.Uint64(c[48:])),
		state:  binary.NativeEndian.Uint32(c[56:]),
	}
	if t.size < 0 || t.data < 0 || t.length < 0 || t.data > t.size || t.length > t.size-t.data {
		return tag{}, fmt.Errorf("%w: what it leads to is damaged", ErrHandle)
	}
	return t, nil
}

// stateOf is the state word of a tag in mapped memory.
func stateOf(tag []byte) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&tag[56:60][0]))
}

// roundUp returns n rounded up to a multiple of step, a power of two.
func roundUp(n, step int64) int64 { return (n + step - 1) &^ (step - 1) }

// object is an array's memory as this process has it: made here or attached. What changes is
// guarded by the registry's mutex.
type object struct {
	addr   handle // what every handle of it says; without a view
	seg    *segment
	base   int64          // of the object in seg.mem
	data   int64          // where the data begin, from base
	length int64          // bytes of data
	state  *atomic.Uint32 // nil where there is none: a user's file, private memory
	own    bool           // made by this Sharer
	write  bool           // attached for writing, or made to be
	copied bool           // attached for CopyOnWrite, in no registry
	dedupe *dedupeKey     // where it is known by its content

	refs int  // Arrays that are open
	dead bool // no longer in the registry
}

// bytes is the whole of the object. Views count their bytes in it.
func (o *object) bytes() []byte { return o.seg.mem[o.base : o.base+o.addr.size : o.base+o.addr.size] }

// segment is one mapping of one file. What changes is guarded by the registry's mutex.
type segment struct {
	mem    []byte
	fd     int            // of a memfd made here; else -1
	sealed bool           // nobody else can write to it, for ever
	write  bool           // mapped for writing
	own    bool           // made by this Sharer
	arena  bool           // holds entries
	pid    int            // of the process that made it, 0 for own ones and files
	state  *atomic.Uint32 // of the whole file
	close  func() error   // undoes the mapping and whatever goes with it
	handed bool           // to another process, which frees it
	lost   func() bool    // of another process: reports whether its handle no longer leads to it

	filled  int64 // bytes from the begin that have memory, for a memfd made here
	touched int64 // bytes from the begin that are in the page table, for a memfd made here

	objects []*object // by base
	live    int       // how many of them have refs
	full    bool      // an arena that takes no more entries
	idleAt  uint64    // when it became idle, by the registry's count
}
