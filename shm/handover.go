//go:build unix

package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/childproc"
	"leat/internal/fault"
)

// An array is handed over by passing its descriptor through a unix socket. The kernel keeps the
// memory of a descriptor in the socket, and frees it if the receiver ends without receiving it.
//
// A message is this head, then the handle of the array in the sender:
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
// one of os/exec's ExtraFiles, which opens it with net.FileConn. The caller closes file once the
// child has started; otherwise the end of the child goes unnoticed.
func SocketPair() (conn *net.UnixConn, file *os.File, err error) {
	conn, file, err = childproc.SocketPair("arrays")
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return conn, file, nil
}

// Send hands the array over to the process that calls Receive at the other end of a unix stream
// socket. After Send this process may close the array or exit at once: the receiver owns the array
// and frees it, or the kernel does if nobody receives it. Send seals the array first, so the error
// may wrap ErrWriters. Arrays of up to 64 KiB are copied. An attached array is sent as its handle:
// its maker must live until it is received.
//
// After an error that is not one of the socket, the array is as it was, but sealed. After an error
// of the socket, or once ctx is done, the socket cannot be used again. An array is handed over
// once.
func (a *Array) Send(ctx context.Context, to *net.UnixConn) error {
	if a.isClosed() {
		return errArrayClosed
	}
	if err := checkStream(to); err != nil {
		return err
	}
	if err := a.begin(); err != nil {
		return err
	}
	ready := sync.OnceFunc(a.end) // to be sent: Close waits no longer
	defer ready()
	s, o, v := a.pool, a.obj, a.view
	switch {
	case o.private() || o.own && o.seg.arena:
		// An entry of an arena has no descriptor.
		src, err := sourceOf(a, nil)
		if err != nil {
			return wrapNoSpace(err)
		}
		p := &allocation{elem: src.view.elem, shape: src.view.shape, fortran: src.order, length: src.length, src: src}
		if o, err = s.create(p); err != nil {
			return err
		}
		err = s.handOver(ctx, to, o, p.view(o.data), ready)
		src.keepAlive()
		return errors.Join(err, s.release(o))
	case !o.own:
		h, err := a.Handle()
		if err != nil {
			return err
		}
		ready()
		return sendMessage(ctx, to, h, -1)
	}
	if err := a.seal(); err != nil {
		return err
	}
	return s.handOver(ctx, to, o, v, ready)
}

// checkStream returns an error for datagram sockets, which lose the rest of a message that is read
// in parts.
func checkStream(c *net.UnixConn) error {
	if c == nil {
		return errors.New("nil *net.UnixConn")
	}
	if kind := c.LocalAddr().Network(); kind != "unix" {
		return fmt.Errorf("socket of network %s, expected unix", kind)
	}
	return nil
}

// handOver sends a sealed object that has a file of its own. It calls ready before it waits for the
// socket.
func (s *Pool) handOver(ctx context.Context, to *net.UnixConn, o *object, v view, ready func()) (err error) {
	s.reg.mu.Lock()
	switch {
	case s.reg.closed || o.dead:
		s.reg.mu.Unlock()
		return errArrayClosed
	case o.seg.handed:
		s.reg.mu.Unlock()
		return errors.New("array was handed over before")
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
	// Readers ignore the state from here on, since the receiver cannot write it.
	if o.state.Load() == stateSealed { // else it was received, and cannot be written here
		o.state.CompareAndSwap(stateSealed, stateHanded)
	}
	fault.Point("shm.handing")
	var fd int
	if o.addr.kind == kindFile {
		d, err := s.dir(o.addr.root)
		if err != nil {
			return err
		}
		// A lock of its own travels with the descriptor and keeps the file from being swept.
		hold, err := d.LockShared(fileName(o.addr.id), false)
		if err != nil {
			return fmt.Errorf("sending array: %w", err)
		}
		fd = hold.Fd() // a Release would end the lock
	} else if fd, err = unix.FcntlInt(uintptr(o.seg.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return fmt.Errorf("sending array: %w", err)
	}
	defer unix.Close(fd)
	ready()
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
			err = fmt.Errorf("sending array: %w", err)
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

// within interrupts a socket's operation when ctx is done. end replaces its error with that of ctx.
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

// Receive returns the next array that another process hands over by Send at the other end of a unix
// stream socket. This process owns it from then on, for reading: its handles lead to this process,
// and its Close frees it. If the other end was closed, or its process ended, before it sent an
// array, the error wraps io.EOF. The message may be hostile, as for Attach. After an error, or once
// ctx is done, the socket cannot be used again.
func (c *Scope) Receive(ctx context.Context, from *net.UnixConn) (*Array, error) {
	if err := c.checkOpen(); err != nil {
		return nil, err
	}
	if err := checkStream(from); err != nil {
		return nil, err
	}
	text, fd, err := receiveMessage(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("receiving array: %w", err)
	}
	if fd < 0 {
		return c.Attach(text, ReadOnly)
	}
	if err := c.begin(); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	defer c.running.RUnlock()
	fault.Point("shm.receiving")
	o, v, err := c.pool.takeOver(text, fd)
	if err != nil {
		return nil, err
	}
	fault.Point("shm.received")
	return c.add(o, v, ReadOnly), nil
}

// receiveMessage reads one message; fd is -1 if it has no descriptor.
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
		return "", -1, fmt.Errorf("%w: too many open descriptors", ErrNoSpace)
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
		return "", -1, fmt.Errorf("%w: message %.20q with %d descriptors",
			errHandle, head, len(fds))
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

// takeOver returns the object of a descriptor that another process handed over. It owns fd.
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
		return nil, view{}, bootError(text)
	}
	var seg *segment
	switch {
	case h.kind == kindMemfd && h.base == 0:
		seg, err = takeMemfd(fd, &h)
	case h.kind == kindFile:
		seg, err = s.mapNamed(&h, ReadOnly, fd)
	default:
		err = handleError(text, errors.New("arrays of this kind have no descriptor"))
	}
	if err != nil {
		return nil, view{}, err
	}
	o, err := objectIn(seg, &h)
	if err == nil {
		err = o.check(&h)
	}
	if err == nil {
		seg.own, o.own, seg.lost = true, true, nil
		if h.kind == kindMemfd {
			o.addr.pid, o.addr.fd = s.pid, fd
		}
		err = s.register(o)
	}
	if err != nil {
		seg.own = false // the file is not ours to remove
		return nil, view{}, errors.Join(err, seg.close())
	}
	if h.kind == kindMemfd {
		keep = true
		seg.fd = fd
		seg.close = func() error { return errors.Join(unmapMemory(mem(seg)), unix.Close(fd)) }
	}
	return o, h.view, nil
}

// takeMemfd maps a sealed memfd.
func takeMemfd(fd int, h *handle) (*segment, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("receiving array: %w", err)
	}
	if int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%w: file of user %d", ErrForeign, st.Uid)
	}
	if !sealedMemfd(fd) {
		return nil, fmt.Errorf("%w: descriptor is not of sealed memory", errHandle)
	}
	if _, err := readTag(fd, st.Size, kindWhole, h); err != nil {
		return nil, err
	}
	return mapFD(fd, st.Size, ReadOnly)
}
