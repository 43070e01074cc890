//go:build unix

package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
)

// An array is handed over by passing its descriptor through a unix socket. While the descriptor is
// on its way the kernel keeps the memory, and frees it when the receiver ends without having taken
// it.
//
// A message is this head, then the handle that the array has in the sender:
//
//	0  7  "leatshm"
//	7  1  'd': a descriptor comes with the first byte; 'h': the handle alone
//	8  4  bytes of the handle, little-endian
const (
	handMagic      = "leatshm"
	handHead       = 12
	handDescriptor = 'd'
	handHandle     = 'h'
)

// SocketPair returns a socket for Send and Receive: conn for this process and file for a child, as
// one of os/exec's ExtraFiles, which opens it with net.FileConn. Close file after the child was
// started, so that its end is noticed.
func SocketPair() (conn *net.UnixConn, file *os.File, err error) {
	syscall.ForkLock.RLock() // not every system has SOCK_CLOEXEC
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("a pair of sockets: %w", err)
	}
	own, file := os.NewFile(uintptr(fds[0]), "arrays"), os.NewFile(uintptr(fds[1]), "arrays")
	defer own.Close()
	c, err := net.FileConn(own)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("a pair of sockets: %w", err), file.Close())
	}
	return c.(*net.UnixConn), file, nil
}

// Send hands the array over to the process that calls Receive at the other end of a unix stream
// socket. When it returns nil the array no longer needs this process, which may close it or exit at
// once: the receiver owns it, gives handles of it, and frees it; what it never takes the kernel
// frees. Send seals the array first, so the error may wrap ErrWriters. Arrays of up to 64 KiB are
// copied. An array that was attached is sent as its handle: its maker must live until it is
// received.
//
// After an error that is not one of the socket the array is as it was, but sealed. After the end of
// ctx or an error of the socket the socket is of no more use. An array is handed over once.
func (a *Array) Send(ctx context.Context, to *net.UnixConn) error {
	if a.bad() {
		return fmt.Errorf("%w: the array", ErrClosed)
	}
	if err := checkStream(to); err != nil {
		return err
	}
	s, o, v := a.sharer, a.obj, a.view
	switch {
	case o.private() || o.own && o.seg.arena:
		// An entry of an arena has no descriptor of its own.
		src, err := sourceOf(a, nil)
		if err != nil {
			return noRoomIf(err)
		}
		p := &allocation{elem: src.view.elem, shape: src.view.shape, fortran: src.order, length: src.length, src: src}
		if o, err = s.create(p); err != nil {
			return err
		}
		err = s.handOver(ctx, to, o, p.view(o.data))
		src.keepAlive()
		return errors.Join(err, s.release(o))
	case !o.own:
		h, err := a.Handle()
		if err != nil {
			return err
		}
		return sendMessage(ctx, to, h, -1)
	}
	if err := a.Seal(); err != nil {
		return err
	}
	return s.handOver(ctx, to, o, v)
}

// checkStream refuses sockets that keep the bounds of messages: what is not read of one is lost
// there.
func checkStream(c *net.UnixConn) error {
	if c == nil {
		return errors.New("a nil *net.UnixConn is no socket")
	}
	if kind := c.LocalAddr().Network(); kind != "unix" {
		return fmt.Errorf("arrays are handed over through a unix stream socket (network unix), not through %s",
			kind)
	}
	return nil
}

// handOver sends a sealed object of its own file.
func (s *Pool) handOver(ctx context.Context, to *net.UnixConn, o *object, v view) (err error) {
	s.reg.mu.Lock()
	switch {
	case s.reg.closed || o.dead:
		s.reg.mu.Unlock()
		return fmt.Errorf("%w: the array", ErrClosed)
	case o.seg.handed:
		s.reg.mu.Unlock()
		return errors.New("the array is being handed over, or was: its receiver hands it on")
	}
	o.seg.handed = true
	s.reg.retain(o) // its descriptor stays until it is sent
	s.reg.mu.Unlock()
	defer func() {
		if err != nil {
			s.reg.mu.Lock()
			o.seg.handed = false
			s.reg.mu.Unlock()
		}
		err = errors.Join(err, s.release(o))
	}()
	// From here on nobody believes the state: the receiver can't write it.
	if o.state.Load() == stateSealed { // else it came by Receive, and can't be written here
		o.state.CompareAndSwap(stateSealed, stateHanded)
	}
	fault.Point("shm.handing")
	fd := o.seg.fd
	if o.addr.kind == kindFile {
		d, err := s.dir(o.addr.root)
		if err != nil {
			return err
		}
		// The lock of a description of its own is on its way with it, and keeps the file from being
		// swept.
		hold, err := d.LockShared(fileName(o.addr.id), false)
		if err != nil {
			return fmt.Errorf("handing over: %w", err)
		}
		fd = hold.Fd()
		defer unix.Close(fd) // a Release would end the lock
	}
	if err := sendMessage(ctx, to, o.handle(v), fd); err != nil {
		return err
	}
	fault.Point("shm.handed")
	return nil
}

// sendMessage sends a handle, with a descriptor unless that is -1.
func sendMessage(ctx context.Context, to *net.UnixConn, h Handle, fd int) (err error) {
	b := append(make([]byte, 0, handHead+len(h)), handMagic...)
	var rights []byte
	if fd >= 0 {
		b = append(b, handDescriptor)
		rights = unix.UnixRights(fd)
	} else {
		b = append(b, handHandle)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h)))
	b = append(b, h...)
	defer func() {
		if err != nil {
			err = fmt.Errorf("handing over: %w", err)
		}
	}()
	end, err := within(ctx, to.SetWriteDeadline)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	n, _, err := to.WriteMsgUnix(b, rights, nil)
	if err == nil && n < len(b) {
		_, err = to.Write(b[n:])
	}
	return err
}

// within lets the end of ctx interrupt what a socket does. end returns the error of that, or ctx's.
func within(ctx context.Context, deadline func(time.Time) error) (end func(error) error, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = deadline(time.Unix(1, 0))
		close(interrupted)
	})
	return func(err error) error {
		if stop() {
			return err
		}
		<-interrupted
		_ = deadline(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = context.Cause(ctx)
		}
		return err
	}, nil
}

// Receive takes the next array that another process hands over by Send at the other end of a unix
// stream socket. The array is this process's from then on, for reading: its handles lead here, and
// its Close frees it. Where the other end was closed, or its process ended, before it sent an
// array, the error wraps io.EOF. What comes is checked as by Attach. After an error, or the end of
// ctx, the socket is of no more use.
func (c *Scope) Receive(ctx context.Context, from *net.UnixConn) (*Array, error) {
	if err := c.checkOpen(); err != nil {
		return nil, err
	}
	if err := checkStream(from); err != nil {
		return nil, err
	}
	text, fd, err := receiveMessage(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("receiving an array: %w", err)
	}
	if fd < 0 {
		return c.Attach(text, ReadOnly, nil)
	}
	fault.Point("shm.receiving")
	o, v, err := c.sharer.takeOver(text, fd)
	if err != nil {
		return nil, err
	}
	fault.Point("shm.received")
	return c.array(o, v, ReadOnly)
}

// receiveMessage reads one message; fd is -1 where none came.
func receiveMessage(ctx context.Context, from *net.UnixConn) (text Handle, fd int, err error) {
	end, err := within(ctx, from.SetReadDeadline)
	if err != nil {
		return "", -1, err
	}
	var fds []int
	defer func() {
		if err = end(err); err != nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			text, fd = "", -1
		}
	}()
	head, rights := make([]byte, handHead), make([]byte, unix.CmsgSpace(4*4))
	n, got, flags, _, err := from.ReadMsgUnix(head, rights)
	if got > 0 {
		var err1 error
		fds, err1 = descriptorsIn(rights[:got])
		err = errors.Join(err, err1)
	}
	switch {
	case err != nil:
		return "", -1, err
	case n == 0:
		return "", -1, io.EOF
	case flags&unix.MSG_CTRUNC != 0:
		return "", -1, fmt.Errorf("%w: too many descriptors are open (ulimit -n)", ErrNoRoom)
	}
	if _, err := io.ReadFull(from, head[n:]); err != nil {
		return "", -1, unexpected(err)
	}
	size, want := binary.LittleEndian.Uint32(head[8:]), 0
	if head[7] == handDescriptor {
		want = 1
	}
	if string(head[:7]) != handMagic || head[7] != handDescriptor && head[7] != handHandle || size > maxHandle ||
		len(fds) != want {
		return "", -1, fmt.Errorf("%w: what came is no array that was handed over: %.20q with %d descriptors",
			ErrHandle, head, len(fds))
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(from, b); err != nil {
		return "", -1, unexpected(err)
	}
	if want == 0 {
		return Handle(b), -1, nil
	}
	return Handle(b), fds[0], nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func descriptorsIn(rights []byte) (fds []int, err error) {
	list, err := unix.ParseSocketControlMessage(rights)
	for _, m := range list {
		some, err1 := unix.ParseUnixRights(&m)
		fds, err = append(fds, some...), errors.Join(err, err1)
	}
	return fds, err
}

// takeOver makes the object of a descriptor that another process handed over, which it takes or
// closes.
func (s *Pool) takeOver(text Handle, fd int) (_ *object, _ view, err error) {
	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	h, err := parseHandle(text)
	if err != nil {
		return nil, view{}, err
	}
	if h.boot != s.boot {
		return nil, view{}, fmt.Errorf("%w: it was made on another machine, or before the last boot: %.80q", ErrForeign,
			string(text))
	}
	var seg *segment
	switch {
	case h.kind == kindMemfd && h.base == 0:
		seg, err = takeMemfd(fd, &h)
	case h.kind == kindFile:
		seg, err = s.takeNamed(fd, &h)
	default:
		err = handleError(text, errors.New("such arrays are not handed over by their descriptors"))
	}
	if err != nil {
		return nil, view{}, err
	}
	o, err := objectIn(seg, &h)
	if err == nil {
		err = o.check(&h)
	}
	if err == nil {
		seg.own, o.own = true, true
		if h.kind == kindMemfd {
			o.addr.pid, o.addr.fd = s.pid, fd
		}
		err = s.register(o)
	}
	if err != nil {
		seg.own = false // nobody's to remove
		return nil, view{}, errors.Join(err, seg.close())
	}
	if h.kind == kindMemfd {
		keep = true
		seg.fd = fd
		seg.close = func() error { return errors.Join(unix.Munmap(mem(seg)), unix.Close(fd)) }
	}
	return o, h.view, nil
}

// takeMemfd maps a memfd that nobody can write to any more.
func takeMemfd(fd int, h *handle) (*segment, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("receiving an array: %w", err)
	}
	if int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%w: the file belongs to user %d", ErrForeign, st.Uid)
	}
	if !sealedMemfd(fd) {
		return nil, fmt.Errorf("%w: the descriptor that came is of no sealed memory", ErrHandle)
	}
	if _, err := readTag(fd, st.Size, kindWhole, h); err != nil {
		return nil, err
	}
	return mapFD(fd, st.Size, ReadOnly)
}

// takeNamed maps a named array, which must have its name in this process's folder.
func (s *Pool) takeNamed(fd int, h *handle) (*segment, error) {
	d, err := s.dir(h.root)
	if err != nil {
		return nil, err
	}
	hold, err := d.LockShared(fileName(h.id), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s: name the same folder in %s, or %s, for both processes", ErrStale,
			d.FilePath(fileName(h.id)), lockfile.RootVariable, tempVariable)
	}
	if err != nil {
		return nil, fmt.Errorf("receiving an array: %w", err)
	}
	var came, found unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &came), unix.Fstat(hold.Fd(), &found))
	if err == nil && (came.Dev != found.Dev || came.Ino != found.Ino) {
		err = fmt.Errorf("%w: the descriptor that came is another file than %s", ErrHandle, d.FilePath(fileName(h.id)))
	}
	var t tag
	if err == nil {
		t, err = checkNamed(hold, h, false)
	}
	if err != nil {
		return nil, errors.Join(err, hold.Release())
	}
	m, err := hold.MapAs(int(t.size), protRead, mapShared)
	if err != nil {
		return nil, fmt.Errorf("receiving an array: %w", noRoomIf(err))
	}
	seg := &segment{mem: m.Data, fd: -1}
	seg.state = stateOf(seg.mem[t.size-pageSize:])
	seg.close = closeNamed(seg, d, fileName(h.id), m)
	return seg, nil
}
