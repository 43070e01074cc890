package store

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
)

const (
	// Block is the unit of space in bytes: the block size of common file systems.
	Block = 4096
	// PackBelow is the size in bytes from which an object is a file of its own: from there on,
	// creating and removing a file costs less than a tenth of writing it.
	PackBelow = 1 << 20
	// SegmentSize is the size in bytes of a segment. Smaller segments are freed sooner when few of
	// their objects are left, but each one costs a file.
	SegmentSize = 64 << 20
)

// Charge returns the space in bytes that an object of the given size takes: whole blocks, at least
// one. It does not overflow.
func Charge(size int64) int64 {
	return max(min(size, math.MaxInt64-Block)+Block-1, Block) / Block * Block
}

// File is the Offset of an object with a file of its own.
const File = -1

// Place is where the bytes of an object are. Places are comparable and valid in all processes that
// use the directory.
type Place struct {
	ID     uint64   // number of the segment or file, unique among both; 0: none
	Offset int64    // in the segment; File: a file of its own
	Ext    [16]byte // extension of the file name with its dot, padded with zeros
}

// Packed reports whether the object is in a segment.
func (p Place) Packed() bool { return p.Offset != File }

// Check returns an error if no object can be at p.
func (p Place) Check() error {
	if p.ID == 0 || p.Packed() && (p.Offset < 0 || p.Offset%Block != 0 || p.Offset >= SegmentSize) {
		return fmt.Errorf("invalid place: offset %d in number %d", p.Offset, p.ID)
	}
	_, err := parseExt(p.ext())
	return err
}

func (p Place) ext() string { return strings.TrimRight(string(p.Ext[:]), "\x00") }

// name returns the path of the file in segments/ or objects/.
func (p Place) name() string {
	if p.Packed() {
		return segmentName(p.ID)
	}
	n := segmentName(p.ID)
	return n[14:] + "/" + n + p.ext()
}

func segmentName(id uint64) string {
	b := [8]byte{byte(id >> 56), byte(id >> 48), byte(id >> 40), byte(id >> 32), byte(id >> 24), byte(id >> 16),
		byte(id >> 8), byte(id)}
	return hex.EncodeToString(b[:])
}

// parseSegment returns the number of a segment from its name.
func parseSegment(name string) (id uint64, ok bool) {
	var b [8]byte
	if len(name) != 16 || strings.ToLower(name) != name {
		return 0, false
	}
	if _, err := hex.Decode(b[:], []byte(name)); err != nil {
		return 0, false
	}
	for _, c := range b {
		id = id<<8 | uint64(c)
	}
	return id, id != 0
}

// parseFile returns the number of a file from its name and directory.
func parseFile(dir, name string) (id uint64, ok bool) {
	if len(name) < 16 || dir != name[14:16] {
		return 0, false
	}
	if _, err := parseExt(name[16:]); err != nil {
		return 0, false
	}
	return parseSegment(name[:16])
}

// parseExt checks and converts a file name extension.
func parseExt(ext string) (e [16]byte, err error) {
	ok := len(ext) <= len(e) && (ext == "" || len(ext) > 1 && ext[0] == '.')
	for i := 1; i < len(ext) && ok; i++ {
		c := ext[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	if !ok {
		return e, fmt.Errorf("invalid extension %q: expected a dot and 1 to %d letters, digits, dots, _ or -", ext, len(e)-1)
	}
	copy(e[:], ext)
	return e, nil
}

// Ext returns the extension of an object's name, with its dot, or "" if it has none that parseExt
// accepts.
func Ext(name string) string {
	last := name[strings.LastIndexByte(name, '/')+1:]
	if i := strings.LastIndexByte(last, '.'); i > 0 {
		if _, err := parseExt(last[i:]); err == nil {
			return last[i:]
		}
	}
	if before, _, ok := strings.Cut(name, "?"); ok { // a query or version follows
		return Ext(before)
	}
	return ""
}
