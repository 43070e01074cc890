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
// that describes it.
//
//	whole file:   [.npy header, padded to pages][data, padded to pages][tag, a page]
//	arena entry:  [tag, 64 bytes][.npy header, padded to 64][data, padded to 64]
//
// The tag of a whole file is in the last page, where the size of the file finds it; NumPy ignores
// what follows the data. The size of the file never changes.
const (
	pageSize   = 4096
	tagSize    = 64
	tagMagic   = "leat-shm"
	tagVersion = 1 // of the layout
)

// Kinds of tags.
const (
	kindWhole = 1 + iota // a file of its own
	kindArena            // a file of many entries
	kindEntry            // an entry of an arena
)

// States of an object, stored in its tag, where every process sees them.
const (
	stateMaking uint32 = iota // no process has its handle yet
	stateOpen                 // others may write
	stateSealed               // only the creator may write
	stateFreed                // no new reader may attach it
	// Sealed and handed over, or about to be. The receiver can't write the state, so only its
	// handle shows whether the array lives.
	stateHanded
)

// ident identifies an object; no two objects ever have the same.
type ident [16]byte

func newIdent() ident {
	var id ident
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id ident) String() string { return hex.EncodeToString(id[:]) }

// tag describes an object. Offsets count from the start of the object.
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

// bytes returns the tag as it is in a file.
func (t *tag) bytes() []byte {
	b := make([]byte, tagSize)
	t.encode(b)
	binary.NativeEndian.PutUint32(b[56:], t.state)
	return b
}

// parseTag parses a tag. b may be memory that a hostile process writes: every byte is read once.
// The error wraps [errHandle].
func parseTag(b []byte) (tag, error) {
	if len(b) < tagSize {
		return tag{}, fmt.Errorf("%w: memory is smaller than a tag", errHandle)
	}
	var c [tagSize]byte
	copy(c[:], b)
	if string(c[:8]) != tagMagic {
		return tag{}, fmt.Errorf("%w: its file is not a shared array", errHandle)
	}
	if v := binary.LittleEndian.Uint16(c[8:]); v != tagVersion {
		return tag{}, fmt.Errorf("%w: array of layout version %d, expected %d", errHandle, v, tagVersion)
	}
	if binary.LittleEndian.Uint32(c[12:]) != tagSum(c[:]) {
		return tag{}, fmt.Errorf("%w: damaged tag", errHandle)
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
		return tag{}, fmt.Errorf("%w: damaged tag", errHandle)
	}
	return t, nil
}

// stateOf returns the state word of a tag in mapped memory.
func stateOf(tag []byte) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&tag[56:60][0]))
}

// roundUp returns n rounded up to a multiple of step, a power of two.
func roundUp(n, step int64) int64 { return (n + step - 1) &^ (step - 1) }

// object is an array's memory in this process, made here or attached. The registry's mutex guards
// refs and dead.
type object struct {
	addr   handle // without a view
	seg    *segment
	base   int64          // of the object in seg.mem
	data   int64          // where the data begin, from base
	length int64          // bytes of data
	state  *atomic.Uint32 // nil where there is none: a user's file, private memory
	own    bool           // made by this Pool
	write  bool           // attached for writing, or made to be
	copied bool           // attached for CopyOnWrite, in no registry

	refs int  // Arrays that are open
	dead bool // no longer in the registry
}

// bytes returns the whole object, in which views count their bytes.
func (o *object) bytes() []byte { return o.seg.mem[o.base : o.base+o.addr.size : o.base+o.addr.size] }

// segment is one mapping of one file. The registry's mutex guards its variable fields.
type segment struct {
	mem    []byte
	fd     int            // of a memfd made here; else -1
	sealed bool           // other processes can never write to it
	write  bool           // mapped for writing
	own    bool           // made by this Pool
	arena  bool           // holds entries
	pid    int            // of the process that made it, 0 for own ones and files
	state  *atomic.Uint32 // of the whole file
	close  func() error   // unmaps it and releases its descriptor or lock
	handed bool           // over to another process, which frees it
	lost   func() bool    // of another process: reports whether its handle is stale

	filled  int64 // first bytes that have memory, for a memfd made here
	touched int64 // first bytes that are in the page table, for a memfd made here

	objects []*object // by base
	live    int       // how many of them have refs
	full    bool      // the arena takes no more entries
	idleAt  uint64    // when it became idle, by the registry's count
}
