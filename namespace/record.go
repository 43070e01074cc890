package namespace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
	"unicode/utf8"
)

// A job's file holds a record, written once before the file has a name, and after it the table of
// its members, which changes. docs/format/namespace.md draws it byte by byte.
const (
	recordMagic   = "LEATNSP1"
	recordHead    = 24 // magic, length of the JSON, offset of the table, slots, crc32c of all before and of the JSON
	maxRecord     = 1 << 20
	tableAlign    = 4096
	slotSize      = 64
	maxCommand    = 200
	maxSlots      = 1 << 16
	minSlots      = 256
	maxRecordDirs = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// claim is one claimed directory or file of a record.
type claim struct {
	Path      string `json:"path"` // absolute, as its user named it
	Remote    string `json:"remote,omitempty"`
	File      bool   `json:"file,omitempty"`
	Exclusive bool   `json:"exclusive"`
	Dev       uint64 `json:"dev"`
	Ino       uint64 `json:"ino"`
}

// record describes a job.
type record struct {
	ID      string    `json:"id"` // 32 random hex digits of this registration
	Key     string    `json:"key"`
	Name    string    `json:"name,omitempty"`
	Number  int       `json:"number"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Start   uint64    `json:"start"` // of the process, in clock ticks after boot
	Since   time.Time `json:"since"`
	Command string    `json:"command"`
	Claims  []claim   `json:"claims,omitempty"`
	Renewed bool      `json:"renewed,omitempty"` // registered again after the runtime directory was removed
}

var errRecord = errors.New("not a record of a namespace")

// encodeRecord returns the record with its head, up to where the table of members begins.
func encodeRecord(r record, slots int) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) > maxRecord-recordHead || len(r.Claims) > maxRecordDirs {
		return nil, fmt.Errorf("%d directories and their paths are too many for one namespace", len(r.Claims))
	}
	b := append([]byte(recordMagic), make([]byte, recordHead-len(recordMagic))...)
	table := (recordHead + len(text) + tableAlign - 1) / tableAlign * tableAlign
	binary.LittleEndian.PutUint32(b[8:], uint32(len(text)))
	binary.LittleEndian.PutUint32(b[12:], uint32(table))
	binary.LittleEndian.PutUint32(b[16:], uint32(slots))
	sum := crc32.Update(crc32.Checksum(b[:20], castagnoli), castagnoli, text)
	binary.LittleEndian.PutUint32(b[20:], sum)
	b = append(b, text...)
	return append(b, make([]byte, table-len(b))...), nil
}

// decodeRecord parses the record at the start of a job file, and where its table of members is. A
// torn or foreign file is an error.
func decodeRecord(b []byte) (r record, table, slots int, err error) {
	bad := func(why string) (record, int, int, error) {
		return record{}, 0, 0, fmt.Errorf("%w: %s", errRecord, why)
	}
	if len(b) < recordHead || string(b[:8]) != recordMagic {
		return bad("it does not begin with " + recordMagic)
	}
	length, table, slots := int64(binary.LittleEndian.Uint32(b[8:])), int(binary.LittleEndian.Uint32(b[12:])),
		int(binary.LittleEndian.Uint32(b[16:]))
	if length > maxRecord-recordHead || recordHead+length > int64(len(b)) {
		return bad("it is cut off")
	}
	text := b[recordHead : recordHead+length]
	if crc32.Update(crc32.Checksum(b[:20], castagnoli), castagnoli, text) != binary.LittleEndian.Uint32(b[20:]) {
		return bad("its checksum is wrong")
	}
	if slots < 1 || slots > maxSlots || table < recordHead+int(length) || table > 2*maxRecord || table%tableAlign != 0 {
		return bad("its table of members is out of bounds")
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return bad(err.Error())
	}
	if r.Number < 0 || r.Number > maxNumber || !utf8.ValidString(r.Key) {
		return bad("its number is out of bounds")
	}
	return r, table, slots, nil
}
