//go:build unix

package cache

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/procfile"
	"leat/internal/tempfile"
)

// Handle is a string by which other processes of this machine and user find a cache:
//
//	leat-cache1:BOOT:PID/FD:UUID
//
// It contains no path. It is valid while the process that issued it keeps the cache open. Receivers
// must not trust it: Attach checks it.
type Handle string

const handlePrefix = "leat-cache1:"

// handle is a parsed Handle. Values and strings correspond one to one.
type handle struct {
	boot, uuid [16]byte
	pid, fd    int
}

func (h handle) text() Handle {
	return Handle(fmt.Sprintf("%s%x:%d/%d:%x", handlePrefix, h.boot, h.pid, h.fd, h.uuid))
}

func parseHandle(text Handle) (h handle, err error) {
	bad := func(why string) (handle, error) {
		return handle{}, fmt.Errorf("%w: %s: %.120q", errHandle, why, string(text))
	}
	if len(text) > 200 {
		return bad("it is too long")
	}
	rest, ok := strings.CutPrefix(string(text), handlePrefix)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 3 {
		return bad("it is not " + handlePrefix + "BOOT:PID/FD:UUID")
	}
	pid, fd, _ := strings.Cut(parts[1], "/")
	var errs [4]error
	h.pid, errs[0] = strconv.Atoi(pid)
	h.fd, errs[1] = strconv.Atoi(fd)
	errs[2] = readID(&h.boot, parts[0])
	errs[3] = readID(&h.uuid, parts[2])
	if errors.Join(errs[:]...) != nil || h.pid < 1 || h.pid > math.MaxInt32 || h.fd < 0 || h.fd > math.MaxInt32 ||
		h.text() != text {
		return bad("invalid number")
	}
	return h, nil
}

func readID(id *[16]byte, s string) error {
	if len(s) != 2*len(id) {
		return hex.ErrLength
	}
	_, err := hex.Decode(id[:], []byte(s))
	return err
}

// Handle returns a string with which another process can Attach the cache while this process keeps
// it open. Any process that has the cache open may issue one.
func (c *Cache) Handle() (Handle, error) {
	if !c.drainGate.enter(0) {
		return "", ErrClosed
	}
	defer c.drainGate.leave(0)
	boot, err := procfile.BootID()
	if err != nil {
		return "", fmt.Errorf("handles need /proc: %w", err)
	}
	return handle{boot: boot, uuid: c.h.uuid, pid: os.Getpid(), fd: c.fd}.text(), nil
}

// Attach opens the cache that a handle refers to. Of Options only Verify, Durability, Progress and
// Logger may be set. The error wraps ErrGone if the issuer has ended, closed the cache, or is in
// another process namespace (a container: pass the file, see [AttachFile]), and ErrForeign if it
// was issued on another machine or by another user.
func Attach(text Handle, opts *Options) (*Cache, error) {
	o, err := forAttach(opts)
	if err != nil {
		return nil, err
	}
	h, err := parseHandle(text)
	if err != nil {
		return nil, err
	}
	boot, err := procfile.BootID()
	if err != nil {
		return nil, fmt.Errorf("handles need /proc: %w", err)
	}
	if boot != h.boot {
		return nil, fmt.Errorf("%w: the handle was issued on another machine, or before a reboot",
			ErrForeign)
	}
	f, err := procfile.OpenFD(h.pid, h.fd)
	switch {
	case errors.Is(err, procfile.ErrGone):
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	case errors.Is(err, procfile.ErrForeign):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	if f.Stat.Size < pageSize {
		return nil, fmt.Errorf("%w: descriptor %d of process %d is another file now", ErrGone, h.fd, h.pid)
	}
	c, err := attach(f.Open, o, &h.uuid)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d of process %d: %w", h.fd, h.pid, err)
	}
	return c, nil
}

// AttachFile opens the cache in a file from [Cache.File] that another process passed, with
// os/exec's ExtraFiles or over a unix socket. f stays the caller's. It also works between
// containers. Without /proc the error is errors.ErrUnsupported.
func AttachFile(f *os.File, opts *Options) (*Cache, error) {
	o, err := forAttach(opts)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var c *Cache
	control := raw.Control(func(fd uintptr) {
		c, err = attach(func(flags int) (int, error) {
			if err := checkOwn(int(fd)); err != nil {
				return -1, err
			}
			return reopenFile(int(fd), flags)
		}, o, nil)
	})
	if control != nil {
		return nil, control
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return c, nil
}

// attach opens a cache. reopen returns a new description of the file, and uuid, if not nil, must be
// that of the file.
func attach(reopen func(flags int) (int, error), o Options, uuid *[16]byte) (*Cache, error) {
	fd, err := reopen(unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("opening: %w", err)
	}
	h, page, _, err := readHeader(fd)
	if uuid != nil && (errors.Is(err, ErrFormat) || err == nil && h.uuid != *uuid) {
		err = fmt.Errorf("%w: it is another file now", ErrGone)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	_, sealed := parseSeal(page)
	if !sealed {
		if err := unix.Close(fd); err != nil {
			return nil, err
		}
		if fd, err = reopen(unix.O_RDWR); err != nil {
			return nil, fmt.Errorf("opening for writing: %w", err)
		}
	}
	if err := hold(fd); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	c, err := open(fd, "", o, sealed)
	if err == nil && !sealed {
		c.findHidden()
	}
	return c, err
}

// findHidden finds the hidden name of a nameless cache, so that the last holder can remove it.
func (c *Cache) findHidden() {
	if c.h.flags&flagNameless == 0 {
		return
	}
	path, err := os.Readlink(procFD(c.fd))
	if err != nil || !isNamelessName(filepath.Base(path)) {
		return
	}
	dir, err := fdio.Open(unix.AT_FDCWD, filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	c.dir = dir
	if name := filepath.Base(path); tempfile.Leads(dir, name, c.fd) {
		c.hidden = name
	}
}

func forAttach(opts *Options) (Options, error) {
	o := orDefault(opts)
	err := o.validate()
	if o.Dir != "" || o.MaxBytes != 0 {
		err = errors.Join(err, errors.New("Attach does not accept Dir or MaxBytes"))
	}
	return o, err
}

// reopenFile opens the file of a descriptor as a new description. A duplicate would not do:
// processes that share a description share its locks, and could fill and put at the same time.
func reopenFile(fd, flags int) (int, error) {
	err := fault.Error("cache.no proc")
	if err == nil {
		if fd, err = procfile.Reopen(fd, flags); err == nil {
			return fd, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return -1, fmt.Errorf("passing cache files needs /proc, which is not mounted: %w", errors.ErrUnsupported)
	}
	return -1, err
}

// File returns the cache's file, to be passed to another process that calls [AttachFile]. The
// caller closes it; it does not keep the cache open. Without /proc the error is
// errors.ErrUnsupported.
func (c *Cache) File() (*os.File, error) {
	if !c.drainGate.enter(0) {
		return nil, ErrClosed
	}
	defer c.drainGate.leave(0)
	flags := unix.O_RDWR
	if c.readOnly {
		flags = unix.O_RDONLY
	}
	fd, err := reopenFile(c.fd, flags)
	if err != nil {
		return nil, fmt.Errorf("opening the file of %s again: %w", c.name(), err)
	}
	return os.NewFile(uintptr(fd), c.name()), nil
}
