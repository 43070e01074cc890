package shm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"leat/npy"
)

// Handle is text by which other processes of this host and user attach an array; that of a small
// array may hold the array itself. It is valid as long as the array is. Attach accepts hostile
// text.
type Handle string

const (
	handlePrefix = "leat-shm1:"
	maxHandle    = 24 << 10 // characters: a description, and the longest path with each byte as %XX
	maxPath      = 4096     // bytes, the kernel's limit
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
// WHERE is PID/FD/BASE of a memfd; run or tmp for a file; PATH@DEV/INO/MTIME of a user's file. The
// text of a value is unique.
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

// text returns the handle as text, which parseHandle accepts if check does.
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
// object. It looks at nothing but the text. The error wraps ErrHandle.
func parseHandle(text Handle) (handle, error) {
	h, err := readHandle(string(text))
	if err != nil {
		return handle{}, handleError(text, err)
	}
	return h, nil
}

func handleError(text Handle, err error) error {
	return fmt.Errorf("%w: %w: %.80q", ErrHandle, err, string(text))
}

func readHandle(s string) (handle, error) {
	if len(s) > maxHandle {
		return handle{}, fmt.Errorf("it has %d characters, more than %d", len(s), maxHandle)
	}
	s, ok := strings.CutPrefix(s, handlePrefix)
	if !ok {
		return handle{}, fmt.Errorf("it does not begin with %q", handlePrefix)
	}
	var parts [9]string // the last one, the description, may have colons in it
	for i := range parts[:8] {
		if parts[i], s, ok = strings.Cut(s, ":"); !ok {
			return handle{}, fmt.Errorf("it has %d parts instead of 9", i+1)
		}
	}
	parts[8] = s
	h := handle{kind: parts[0]}
	var err error
	part := func(name, text string, ok bool) {
		if !ok && err == nil {
			err = fmt.Errorf("its %s is %.80q", name, text)
		}
	}
	part("boot id", parts[1], readID(&h.boot, parts[1]))
	part("place", parts[2], h.readWhere(parts[2]))
	part("id", parts[3], readID(&h.id, parts[3]))
	h.size, ok = readInt(parts[4])
	part("size", parts[4], ok)
	h.view.offset, ok = readInt(parts[5])
	part("offset", parts[5], ok)
	h.view.shape, ok = readInts(parts[6])
	part("shape", parts[6], ok)
	h.view.strides, ok = readInts(parts[7])
	part("strides", parts[7], ok)
	if err != nil {
		return handle{}, err
	}
	if h.view.elem, err = npy.ParseElem(parts[8]); err != nil {
		return handle{}, err
	}
	if h.view.elem.Descr() != parts[8] {
		return handle{}, errors.New("its element type is not written as NumPy does")
	}
	return h, h.check()
}

func (h *handle) readWhere(s string) bool {
	var ok [4]bool
	switch h.kind {
	case kindMemfd:
		pid, rest, _ := strings.Cut(s, "/")
		fd, base, _ := strings.Cut(rest, "/")
		h.pid, ok[0] = readSmall(pid)
		h.fd, ok[1] = readSmall(fd)
		h.base, ok[2] = readInt(base)
		return ok[0] && ok[1] && ok[2]
	case kindFile:
		h.root = s
		return s == "run" || s == "tmp"
	case kindUser:
		name, rest, _ := strings.Cut(s, "@")
		dev, rest, _ := strings.Cut(rest, "/")
		ino, mtime, _ := strings.Cut(rest, "/")
		h.path, ok[0] = readPath(name)
		h.dev, ok[1] = readUint(dev)
		h.ino, ok[2] = readUint(ino)
		h.mtime, ok[3] = readInt(mtime)
		return ok[0] && ok[1] && ok[2] && ok[3]
	}
	return true // check names the kind
}
