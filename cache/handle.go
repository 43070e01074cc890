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
	"leat/internal/procfile"
)

// Handle is text by which other processes of this machine and user find a cache:
//
//	leat-cache1:BOOT:PID/FD:UUID
//
// It holds no path. It is valid while the process that issued it keeps the cache open. Whoever gets one must take it for
// hostile until Attach has checked it.
type Handle string

const handlePrefix = "leat-cache1:"

// handle is a Handle taken apart. Each value has one text and each text one value.
type handle struct {
	boot, uuid [16]byte
	pid, fd    int
}

func (h handle) text() Handle {
	return Handle(fmt.Sprintf("%s%x:%d/%d:%x", handlePrefix, h.boot, h.pid, h.fd, h.uuid))
}

func parseHandle(text Handle) (h handle, err error) {
	bad := func(why string) (handle, error) {
		return handle{}, fmt.Errorf("%w: %s: %.120q", ErrHandle, why, string(text))
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
	if errors.Join(errs[:]...) != nil || h.pid < 1 || h.pid > math.MaxInt32 || h.fd < 0 || h.fd > math.MaxInt32 || h.text() != text {
		return bad("its numbers make no sense")
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

// Handle returns text that lets another process Attach the cache, as long as this process keeps it open. Any process
// that has the cache may issue one.
func (c *Cache) Handle() (Handle, error) {
	if !c.gate.enter(0) {
		return "", ErrClosed
	}
	defer c.gate.leave(0)
	boot, err := procfile.BootID()
	if err != nil {
		return "", fmt.Errorf("cache: handles need /proc: %w", err)
	}
	return handle{boot: boot, uuid: c.h.uuid, pid: os.Getpid(), fd: c.fd}.text(), nil
}

// Attach opens the cache that a handle leads to. Options may set Verify, Durability and Logger. The error wraps ErrHandle where the text is no handle; ErrGone where the
// issuer has ended or closed the cache, or sees other process numbers than this one (a container: pass the file, see [AttachFile]); ErrForeign where
// it is another machine's or user's.
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
		return nil, fmt.Errorf("cache: handles need /proc: %w", err)
	}
	if boot != h.boot {
		return nil, fmt.Errorf("%w: the handle was issued on another machine, or before this one was started again", ErrForeign)
	}
	f, err := procfile.OpenFD(h.pid, h.fd)
	switch {
	case errors.Is(err, procfile.ErrGone):
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	case errors.Is(err, procfile.ErrForeign):
		return nil, fmt.Errorf("%w: %w; pass the file itself to AttachFile", ErrForeign, err)
	case err != nil:
		return nil, fmt.Errorf("cache: %w", err)
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

// AttachFile opens the cache behind a file that another process passed (os/exec's ExtraFiles, a unix socket), see [Cache.File]. f stays the caller's. It
// works between containers too. Where /proc is not mounted the error is errors.ErrUnsupported.
func AttachFile(f *os.File, opts *Options) (*Cache, error) {
	o, err := forAttach(opts)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	var c *Cache
	control := raw.Control(func(fd uintptr) {
		c, err = attach(func(flags int) (int, error) {
			if err := checkOwn(int(fd)); err != nil {
				return -1, err
			}
			return again(int(fd), flags)
		}, o, nil)
	})
	if control != nil {
		return nil, fmt.Errorf("cache: %w", control)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return c, nil
}

// attach opens a cache; reopen gives a descriptor of its own. uuid, if not nil, must be the file's.
func attach(reopen func(flags int) (int, error), o Options, uuid *[16]byte) (*Cache, error) {
	fd, err := reopen(unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("cache: opening: %w", err)
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
			return nil, fmt.Errorf("cache: opening for writing: %w", err)
		}
	}
	if err := hold(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("cache: %w", err), unix.Close(fd))
	}
	c, err := open(fd, "", o, sealed)
	if err == nil && !sealed {
		c.findHidden()
	}
	return c, err
}

// findHidden finds the name of a nameless cache that has one, so that the last holder removes it, whoever that is.
func (c *Cache) findHidden() {
	if c.h.flags&flagNameless == 0 {
		return
	}
	path, err := os.Readlink(procFD(c.fd))
	if err != nil || !isNamelessName(filepath.Base(path)) {
		return
	}
	dir, err := openat(unix.AT_FDCWD, filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return
	}
	c.dir = dir
	if name := filepath.Base(path); leads(dir, name, c.fd) {
		c.hidden = name
	}
}

func forAttach(opts *Options) (Options, error) {
	o := orDefault(opts)
	err := o.validate()
	if o.Dir != "" || o.MaxBytes != 0 {
		err = errors.Join(err, errors.New("cache: Dir and MaxBytes are set where the cache is made, not by those who attach it"))
	}
	return o, err
}

// again opens the file behind a descriptor as a description of its own. A duplicate is none: those who share it have each other's locks, and would fill and
// put at the same time, whatever one of them has locked.
func again(fd, flags int) (int, error) {
	err := fault.Error("cache.no proc")
	if err == nil {
		if fd, err = reopen(fd, flags); err == nil {
			return fd, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return -1, fmt.Errorf("passing the files of caches needs /proc, which is not mounted here: %w", errors.ErrUnsupported)
	}
	return -1, err
}

// File returns the cache's file, to be passed to another process that calls [AttachFile]: as one of os/exec's ExtraFiles, or over a unix
// socket. The caller closes it; it does not keep the cache open for this process. Where /proc is not mounted the error is errors.ErrUnsupported.
func (c *Cache) File() (*os.File, error) {
	if !c.gate.enter(0) {
		return nil, ErrClosed
	}
	defer c.gate.leave(0)
	flags := unix.O_RDWR
	if c.readOnly {
		flags = unix.O_RDONLY
	}
	fd, err := again(c.fd, flags)
	if err != nil {
		return nil, fmt.Errorf("cache: opening the file of %s again: %w", c.name(), err)
	}
	return os.NewFile(uintptr(fd), c.name()), nil
}
