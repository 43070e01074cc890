package shm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"strconv"
	"strings"

	"leat/internal/npy"
)

// Handle is a string by which other processes of this host and user attach an array; that of a
// small array may hold the array itself. It is valid as long as the array is. Attach is safe with a
// hostile handle.
type Handle string

const (
	handlePrefix = "leat-shm1:"
	maxHandle    = 24 << 10 // characters: a description, and the longest path with each byte as %XX
	maxPath      = 4096     // bytes, the kernel's limit
	maxDims      = 32       // dimensions, as in NumPy 1
)

// Kinds of handles.
const (
	kindMemfd = "memfd" // a memfd of a process
	kindFile  = "file"  // a file of ours, found by its id
	kindUser  = "user"  // a file of the user's own
)

// handle is a parsed Handle:
//
//	leat-shm1:KIND:BOOT:WHERE:ID:SIZE:OFFSET:SHAPE:STRIDES:DESCR
//
// WHERE is PID/FD/BASE of a memfd; run or tmp for a file; PATH@DEV/INO/MTIME of a user's file. Each
// value has only one such string.
type handle struct {
	kind string
	boot [16]byte // the boot id of the machine that made it
	id   [16]byte // of the object
	size int64    // bytes of the object
	view view     // from the start of the object

	pid, fd int   // memfd: process and its descriptor
	base    int64 // memfd: byte at which the object begins; not 0 in an arena

	root string // file: which of our roots, "run" or "tmp"

	path     string // user: absolute
	dev, ino uint64 // user
	mtime    int64  // user: nanoseconds since 1970
}

// check returns an error for values that parseHandle refuses.
func (h handle) check() error {
	switch h.kind {
	case kindMemfd:
		if h.pid < 1 || h.pid > math.MaxInt32 || h.fd < 0 || h.fd > math.MaxInt32 {
			return errors.New("no process has such a descriptor")
		}
		if _, ok := addInt64(h.base, h.size); !ok || h.base < 0 {
			return errors.New("the object lies outside of any memfd")
		}
	case kindFile:
		if h.root != "run" && h.root != "tmp" {
			return errors.New("its place is neither run nor tmp")
		}
	case kindUser:
		if !path.IsAbs(h.path) || path.Clean(h.path) != h.path || len(h.path) > maxPath || strings.IndexByte(h.path,
			0) >= 0 {
			return errors.New("its path is not absolute and clean")
		}
	default:
		return errors.New("its kind is neither memfd, file nor user")
	}
	if h.size < 0 {
		return errors.New("the size is negative")
	}
	return h.view.within(h.size)
}

// text returns the handle as a string, which parseHandle accepts if check does.
func (h handle) text() Handle {
	b := make([]byte, 0, 256)
	b = append(b, handlePrefix...)
	b = append(b, h.kind...)
	b = append(b, ':')
	b = hex.AppendEncode(b, h.boot[:])
	b = append(b, ':')
	switch h.kind {
	case kindMemfd:
		b = strconv.AppendInt(b, int64(h.pid), 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(h.fd), 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, h.base, 10)
	case kindFile:
		b = append(b, h.root...)
	case kindUser:
		b = appendPath(b, h.path)
		b = append(b, '@')
		b = strconv.AppendUint(b, h.dev, 10)
		b = append(b, '/')
		b = strconv.AppendUint(b, h.ino, 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, h.mtime, 10)
	}
	b = append(b, ':')
	b = hex.AppendEncode(b, h.id[:])
	b = append(b, ':')
	b = strconv.AppendInt(b, h.size, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, h.view.offset, 10)
	b = append(b, ':')
	b = appendInts(b, h.view.shape)
	b = append(b, ':')
	b = appendInts(b, h.view.strides)
	b = append(b, ':')
	b = append(b, h.view.elem.Descr()...)
	return Handle(b)
}

// parseHandle parses a handle strictly: it accepts only what text writes, with the view inside the
// object. The error wraps errHandle.
func parseHandle(text Handle) (handle, error) {
	h, err := readHandle(text)
	if err != nil {
		return handle{}, handleError(text, err)
	}
	return h, nil
}

func handleError(text Handle, err error) error {
	return fmt.Errorf("%w: %w: %.80q", errHandle, err, string(text))
}

func readHandle(text Handle) (handle, error) {
	if len(text) > maxHandle {
		return handle{}, fmt.Errorf("it has %d characters, more than %d", len(text), maxHandle)
	}
	s, ok := strings.CutPrefix(string(text), handlePrefix)
	if !ok {
		return handle{}, fmt.Errorf("it does not begin with %q", handlePrefix)
	}
	parts := strings.SplitN(s, ":", 9) // the last one, the description, may have colons in it
	if len(parts) != 9 {
		return handle{}, fmt.Errorf("it has %d parts instead of 9", len(parts))
	}
	h := handle{kind: parts[0]}
	for i, part := range []struct {
		name string
		err  error
	}{
		{"boot id", readID(&h.boot, parts[1])}, {"place", h.readWhere(parts[2])}, {"id", readID(&h.id, parts[3])},
		{"size", readInt(&h.size, parts[4])}, {"offset", readInt(&h.view.offset, parts[5])},
		{"shape", readInts(&h.view.shape, parts[6])}, {"strides", readInts(&h.view.strides, parts[7])},
	} {
		if part.err != nil {
			return handle{}, fmt.Errorf("its %s is %.80q", part.name, parts[i+1])
		}
	}
	var err error
	if h.view.elem, err = npy.ParseElem(parts[8]); err != nil {
		return handle{}, err
	}
	if err := h.check(); err != nil {
		return handle{}, err
	}
	if h.text() != text {
		return handle{}, errors.New("it is not in canonical form")
	}
	return h, nil
}

func (h *handle) readWhere(s string) error {
	switch h.kind {
	case kindMemfd:
		at := strings.SplitN(s, "/", 3)
		at = append(at, "", "") // missing ones are not numbers
		return errors.Join(readInt(&h.pid, at[0]), readInt(&h.fd, at[1]), readInt(&h.base, at[2]))
	case kindFile:
		h.root = s
	case kindUser:
		name, rest, _ := strings.Cut(s, "@")
		at := append(strings.SplitN(rest, "/", 3), "", "")
		var err [3]error
		h.path, err[0] = url.PathUnescape(name)
		h.dev, err[1] = strconv.ParseUint(at[0], 10, 64)
		h.ino, err[2] = strconv.ParseUint(at[1], 10, 64)
		return errors.Join(err[0], err[1], err[2], readInt(&h.mtime, at[2]))
	}
	return nil // check names the kind
}

// readID parses 32 hexadecimal digits.
func readID(id *[16]byte, s string) error {
	if len(s) != 2*len(id) {
		return hex.ErrLength
	}
	_, err := hex.Decode(id[:], []byte(s))
	return err
}

func readInt[N int | int64](n *N, s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	*n = N(v)
	return err
}

// readInts parses numbers separated by commas; "-" is none.
func readInts(list *[]int, s string) error {
	if s == "-" {
		return nil
	}
	if strings.Count(s, ",") >= maxDims {
		return fmt.Errorf("more than %d dimensions", maxDims)
	}
	for text := range strings.SplitSeq(s, ",") {
		var n int
		if err := readInt(&n, text); err != nil {
			return err
		}
		*list = append(*list, n)
	}
	return nil
}

func appendInts(b []byte, list []int) []byte {
	if len(list) == 0 {
		return append(b, '-')
	}
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return b
}

// appendPath writes bytes other than those of plain names as %XX.
func appendPath(b []byte, path string) []byte {
	for _, c := range []byte(path) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/-._~", c) >= 0 {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return b
}
