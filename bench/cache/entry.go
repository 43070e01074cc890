package cache

import (
	"encoding/binary"
	"fmt"
)

// Entries are made from their slot number, so that whoever reads one can tell whether it is the
// right one: bytes that are the same for all, with one word of 8 bytes at the beginning, in the
// middle and at the end that depends on the slot. Making one is three stores, which a measured put
// need not be charged with. lmdb_peer.py makes the same.

// word is the little-endian word in entry i.
func word(i int64) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }

// blank returns what is the same for all entries. size is a multiple of 8.
func blank(size int) []byte {
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(k * 31 >> 3)
	}
	return b
}

// marks are the offsets of the words.
func marks(size int) [3]int { return [3]int{0, size / 16 * 8, size - 8} }

// mark makes b, which blank returned, entry i.
func mark(b []byte, i int64) {
	for _, at := range marks(len(b)) {
		binary.LittleEndian.PutUint64(b[at:], word(i))
	}
}

// check looks at the words of what was read as entry i.
func check(b []byte, size int, i int64) error {
	if len(b) != size {
		return fmt.Errorf("entry %d has %d bytes, not %d", i, len(b), size)
	}
	for _, at := range marks(size) {
		if got := binary.LittleEndian.Uint64(b[at:]); got != word(i) {
			return fmt.Errorf("entry %d has %#x at byte %d, not %#x: it is another one", i, got, at, word(i))
		}
	}
	return nil
}

// touch looks at one byte in the middle.
func touch(b []byte, size int, i int64) error {
	if at := size/16*8 + 3; len(b) != size || b[at] != byte(word(i)>>24) {
		return fmt.Errorf("entry %d: its %d bytes are not those expected", i, len(b))
	}
	return nil
}

// scatter is where the k-th put goes, of n slots, a power of two: each k below n to another one.
func scatter(k, n int64) int64 { return (k*0x9e3779b1 + 12345) & (n - 1) }
