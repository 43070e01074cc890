package shelf

import (
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// Block is what room is counted in: the block of the usual file systems.
	Block = 4096
	// PackBelow is the size in bytes from which an object is a file of its own: there making and removing a file costs less than a tenth of
	// writing it.
	PackBelow = 1 << 20
	// SegmentSize is where a segment ends and the next one begins. A small segment is gone sooner when few of its objects
	// are left; each one costs a file.
	SegmentSize = 64 << 20
)

// Charge is the room in bytes that an object of that size takes on the disk: whole blocks, at least one.
func Charge(size int64) int64 {
	return max((size+Block-1)/Block, 1) * Block
}

// File is the Offset of an object that is a file of its own.
const File = -1

// Place is where the bytes of an object lie. Places can be compared, and are valid in all processes that use the directory.
type Place struct {
	ID     uint64   // of the segment or the file; segments and files never have the same. 0: nowhere
	Offset int64    // in the segment; File: the object is a file of its own
	Ext    [16]byte // the end of the file's name, with its dot, filled with zeros
}

// Packed tells whether the object lies in a segment.
func (p Place) Packed() bool { return p.Offset != File }

func (p Place) valid() error {
	if p.ID == 0 || p.Packed() && (p.Offset < 0 || p.Offset%Block != 0 || p.Offset >= SegmentSize) {
		return fmt.Errorf("stage: no object can lie at %d in number %d", p.Offset, p.ID)
	}
	_, err := parseExt(p.ext())
	return err
}

func (p Place) ext() string { return strings.TrimRight(string(p.Ext[:]), "\x00") }

// name is the file's in its folder, segments or objects.
func (p Place) name() string {
	if p.Packed() {
		return segmentName(p.ID)
	}
	n := segmentName(p.ID)
	return n[14:] + "/" + n + p.ext()
}

func segmentName(id uint64) string {
	b := [8]byte{byte(id >> 56), byte(id >> 48), byte(id >> 40), byte(id >> 32), byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
	return hex.EncodeToString(b[:])
}

// parseSegment is the number of a segment by its name.
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

// parseFile is the number of a file by its name and its folder's.
func parseFile(folder, name string) (id uint64, ok bool) {
	if len(name) < 16 || folder != name[14:16] {
		return 0, false
	}
	if _, err := parseExt(name[16:]); err != nil {
		return 0, false
	}
	return parseSegment(name[:16])
}

// parseExt checks the end of a file's name.
func parseExt(ext string) (e [16]byte, err error) {
	ok := len(ext) <= len(e) && (ext == "" || len(ext) > 1 && ext[0] == '.')
	for i := 1; i < len(ext) && ok; i++ {
		c := ext[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	if !ok {
		return e, fmt.Errorf("stage: a file's name can't end with %q: a dot and up to %d letters, digits, dots, _ and - may follow the number", ext, len(e)-1)
	}
	copy(e[:], ext)
	return e, nil
}

// Ext is the end of an object's name by which programs know its format, with its dot, or "" where there is none that a file
// here could have.
func Ext(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return ""
	}
	if _, err := parseExt(name[i:]); err != nil {
		return ""
	}
	return name[i:]
}
