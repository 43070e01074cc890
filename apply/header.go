package apply

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// header is the beginning of an unfinished output.
type header struct {
	bytes []byte
	size  int64 // of the file
	nonce nonce
	description
}

// Why a file is no beginning of an unfinished output that can be gone on with.
var (
	errNotSpool   = errors.New("it is no unfinished output of leat")
	errOtherSpool = errors.New("it was made by another version of leat")
	errTornSpool  = errors.New("its beginning is damaged")
)

// readHeader reads the header of an unfinished output of so many bytes.
func readHeader(f io.ReaderAt, size int64) (*header, error) {
	head := make([]byte, spoolHead)
	if size < spoolHead {
		return nil, errTornSpool
	}
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if string(head[:8]) != spoolMagic {
		return nil, errNotSpool
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
