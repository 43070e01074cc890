package namespace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MosaicML streaming keeps a file of shared memory for each of its jobs: NNNNNN_locals, named by
// the job's number, holds the job's directories. leat reads these files to avoid the numbers and
// the directories. It never writes or removes one.

// streamingJob is the content of such a file.
type streamingJob struct {
	Number int
	Dirs   []string // as the job wrote them; relative ones are relative to its working directory
	Path   string   // the file's
	id     dirID    // of the file
}

// maxStreamingBytes bounds what is read of a file. Real ones have a few paths.
const maxStreamingBytes = 1 << 20

var errReleased = errors.New("released")

// streamingName returns the name of the file of a number.
func streamingName(n int) string { return fmt.Sprintf("%06d_locals", n) }

// parseStreamingName returns the number in a file's name, if it is the name of such a file.
func parseStreamingName(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, "_locals")
	if !ok || len(digits) < 6 || len(digits) > 9 {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && streamingName(n) == name
}

// unpackLocals reads the content of such a file:
//
//	int32, little-endian   size of all of this, itself included; 0: the job has released the file
//	UTF-8                  directory NUL directory NUL … number, in decimal
//
// What follows is padding. data may be the file's beginning; length is the file's. The error is
// errReleased if the size is 0.
func unpackLocals(data []byte, length int64) (number int, dirs []string, err error) {
	if len(data) < 4 {
		return 0, nil, fmt.Errorf("%d bytes, expected at least 4", len(data))
	}
	size := int64(int32(binary.LittleEndian.Uint32(data)))
	switch {
	case size == 0:
		return 0, nil, errReleased
	case size <= 4 || size > maxStreamingBytes:
		return 0, nil, fmt.Errorf("its size is given as %d bytes, expected 5 to %d", size, maxStreamingBytes)
	case size > length || size > int64(len(data)):
		return 0, nil, fmt.Errorf("its size is given as %d bytes, but is %d", size, length)
	}
	text := string(data[4:size])
	if !utf8.ValidString(text) {
		return 0, nil, errors.New("not UTF-8")
	}
	parts := strings.Split(text, "\x00")
	last := parts[len(parts)-1]
	number, err = strconv.Atoi(last)
	if err != nil || number < 0 || strconv.Itoa(number) != last {
		return 0, nil, fmt.Errorf("it ends in %.20q, expected a number", last)
	}
	return number, parts[:len(parts)-1], nil
}

// mapsFile reports whether a line of /proc/PID/maps shows a file: by its inode, and its device or,
// on file systems that give files another device than this one shows, its path.
func mapsFile(line string, id dirID, device, path string) bool {
	// address permissions offset device inode path
	var fields [5]string
	rest := line
	for i := range fields {
		var ok bool
		if fields[i], rest, ok = strings.Cut(rest, " "); !ok && i < 4 {
			return false
		}
	}
	inode, err := strconv.ParseUint(fields[4], 10, 64)
	if err != nil || inode == 0 || inode != id.Ino {
		return false
	}
	return fields[3] == device || strings.TrimSuffix(strings.TrimLeft(rest, " "), " (deleted)") == path
}
