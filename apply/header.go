package apply

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// header is the beginning of a spool: format, nonce and the description of the run.
type header struct {
	bytes []byte
	size  int64 // of the file
	nonce nonce
	description
}

// Reasons why a run can't resume from a file.
var (
	errNotSpool   = errors.New("it is not an unfinished output of leat")
	errOtherSpool = errors.New("it was made by another version of leat")
	errTornSpool  = errors.New("its beginning is damaged")
)

// readHeader reads the header of a spool of size bytes. It returns nil if the header is not
// complete (see spool.start).
func readHeader(f io.ReaderAt, size int64) (*header, error) {
	head := make([]byte, spoolHead)
	if size < spoolHead {
		head = head[:size]
	}
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if zero(head[:min(len(head), len(spoolMagic))]) {
		return nil, checkTorn(f, head, size)
	}
	if !bytes.HasPrefix(head, []byte(spoolMagic)) {
		return nil, errNotSpool
	}
	if size < spoolHead {
		return nil, errTornSpool
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != spoolVersion {
		return nil, fmt.Errorf("%w (its format is %d, that of this one %d)", errOtherSpool, v, spoolVersion)
	}
	n := int64(binary.LittleEndian.Uint32(head[12:]))
	if size < spoolHead+n+4 {
		return nil, errTornSpool
	}
	h := &header{bytes: make([]byte, spoolHead+n+4), size: size}
	copy(h.nonce[:], head[16:])
	if _, err := f.ReadAt(h.bytes, 0); err != nil {
		return nil, err
	}
	if crc32.Checksum(h.bytes[:spoolHead+n], castagnoli) != binary.LittleEndian.Uint32(h.bytes[spoolHead+n:]) {
		return nil, errTornSpool
	}
	if err := json.Unmarshal(h.bytes[spoolHead:spoolHead+n], &h.description); err != nil {
		return nil, errTornSpool
	}
	return h, nil
}

// checkTorn returns errNotSpool if a file without the magic number can't be a spool whose header
// was being written: such a file ends with the header, or holds only zeros.
func checkTorn(f io.ReaderAt, head []byte, size int64) error {
	if len(head) == spoolHead && binary.LittleEndian.Uint32(head[8:]) == spoolVersion &&
		size <= spoolHead+int64(binary.LittleEndian.Uint32(head[12:]))+4 {
		return nil
	}
	buf := make([]byte, 64<<10)
	for at := int64(0); at < size; {
		part := buf[:min(int64(len(buf)), size-at)]
		if _, err := f.ReadAt(part, at); err != nil {
			return err
		}
		if !zero(part) {
			return errNotSpool
		}
		at += int64(len(part))
	}
	return nil
}

// zero reports whether all bytes are 0.
func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
