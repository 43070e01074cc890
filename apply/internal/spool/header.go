package spool

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"leat/apply/outcome"
)

// Header is the beginning of a spool: format, nonce and the description of the run that wrote it.
type Header struct {
	Description []byte // JSON
	// Output and Blocks are the description's "path" and "blocks": the output's path or URL, and
	// the number of all blocks of the run.
	Output string
	Blocks int
	// Skipped of the blocks, the description's "skipped_blocks", have no records.
	Skipped int

	bytes []byte // the whole header
	size  int64  // of the file
	nonce nonce
}

// Empty reports whether nothing follows the header.
func (h *Header) Empty() bool { return h.size == int64(len(h.bytes)) }

// Reasons why a run can't resume from a file.
var (
	ErrVersion = errors.New("it was made by another version of leat")
	ErrDamaged = errors.New("its beginning is damaged")
)

// OpenHeader reads the header of the spool at path. It returns nil if there is no file, an empty
// one, or one whose header is not complete.
func OpenHeader(path string) (*Header, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return nil, outcome.ErrNotSpool
	case st.Size() == 0:
		return nil, nil
	case ok && int(sys.Uid) != os.Geteuid(): // anyone can write to directories for temporary files
		return nil, errors.New("it belongs to another user")
	}
	return ReadHeader(f, st.Size())
}

// ReadHeader reads the header of a spool of size bytes. It returns nil if the header is not
// complete (see File.start).
func ReadHeader(f io.ReaderAt, size int64) (*Header, error) {
	head := make([]byte, HeaderBytes)
	if size < HeaderBytes {
		head = head[:size]
	}
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if zero(head[:min(len(head), len(magic))]) {
		return nil, checkTorn(f, head, size)
	}
	if !bytes.HasPrefix(head, []byte(magic)) {
		return nil, outcome.ErrNotSpool
	}
	if size < HeaderBytes {
		return nil, ErrDamaged
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != version {
		return nil, fmt.Errorf("%w (its format is %d, that of this one %d)", ErrVersion, v, version)
	}
	n := int64(binary.LittleEndian.Uint32(head[12:]))
	if size < HeaderBytes+n+4 {
		return nil, ErrDamaged
	}
	h := &Header{bytes: make([]byte, HeaderBytes+n+4), size: size}
	copy(h.nonce[:], head[16:])
	if _, err := f.ReadAt(h.bytes, 0); err != nil {
		return nil, err
	}
	if crc32.Checksum(h.bytes[:HeaderBytes+n], castagnoli) != binary.LittleEndian.Uint32(h.bytes[HeaderBytes+n:]) {
		return nil, ErrDamaged
	}
	h.Description = h.bytes[HeaderBytes : HeaderBytes+n]
	var d struct {
		Path    string `json:"path"`
		Blocks  int    `json:"blocks"`
		Skipped int    `json:"skipped_blocks"`
	}
	if err := json.Unmarshal(h.Description, &d); err != nil {
		return nil, ErrDamaged
	}
	h.Output, h.Blocks, h.Skipped = d.Path, d.Blocks, d.Skipped
	return h, nil
}

// checkTorn returns ErrNotSpool if a file without the magic number can't be a spool whose header
// was being written: such a file ends with the header, or holds only zeros.
func checkTorn(f io.ReaderAt, head []byte, size int64) error {
	if len(head) == HeaderBytes && binary.LittleEndian.Uint32(head[8:]) == version &&
		size <= HeaderBytes+int64(binary.LittleEndian.Uint32(head[12:]))+4 {
		return nil
	}
	buf := make([]byte, 64<<10)
	for at := int64(0); at < size; {
		part := buf[:min(int64(len(buf)), size-at)]
		if _, err := f.ReadAt(part, at); err != nil {
			return err
		}
		if !zero(part) {
			return outcome.ErrNotSpool
		}
		at += int64(len(part))
	}
	return nil
}

// zero reports whether all bytes are 0.
func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
