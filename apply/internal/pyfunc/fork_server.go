package pyfunc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"leat/internal/childproc"

	"golang.org/x/sys/unix"
)

// forkServer is a Python process that has imported NumPy and forks a process for each slot. A fork
// takes 3 ms, a new interpreter 100. The server ends after its last process.
type forkServer struct {
	process *process
	users   int // processes that it has forked and that have not ended; under Function.mu

	requests chan struct{} // holds a token while no request runs
	limit    time.Duration // how long it may take to fork, or to wait for a process that has ended
}

// forkLimit allows for a busy machine: a fork takes 3 ms.
const forkLimit = time.Minute

// Kinds of requests to a fork server (docs/format/function.md), and the sizes of a request and of
// an answer.
const (
	requestStart = 's'
	requestFork  = 'f'
	requestWait  = 'w'

	requestSize = 8
	replySize   = 8
)

// errAlone is returned where processes can't be forked.
var errAlone = errors.New("processes of Python can't be forked")

// newProcess returns a process forked by a fork server or, where that is impossible, a new
// interpreter.
func (f *Function) newProcess(ctx context.Context) (*process, error) {
	f.starting.Lock()
	defer f.starting.Unlock()
	if !f.alone {
		p, err := f.fork(ctx)
		if !errors.Is(err, errAlone) {
			return p, err
		}
		f.alone = true
	}
	return startPython(f.spec.Executable, f.out)
}

// fork forks a process, and starts the fork server if there is none.
func (f *Function) fork(ctx context.Context) (*process, error) {
	f.mu.Lock()
	s := f.server
	if s != nil && s.process.hasEnded() {
		s = nil
	}
	if s != nil {
		s.users++
	}
	f.mu.Unlock()
	if s == nil {
		var err error
		if s, err = startForkServer(ctx, f.spec.Executable, f.out); err != nil {
			return nil, err
		}
		s.users = 1
		f.mu.Lock()
		f.server = s
		f.mu.Unlock()
	}
	p, err := s.fork(f.out, func() { f.release(s) })
	if err != nil {
		f.release(s)
	}
	return p, err
}

// release ends a fork server after the end of its last process.
func (f *Function) release(s *forkServer) {
	f.mu.Lock()
	s.users--
	last := s.users == 0
	if last && f.server == s {
		f.server = nil
	}
	f.mu.Unlock()
	if last {
		s.process.end()
	}
}

// startForkServer starts a fork server, or returns errAlone.
func startForkServer(ctx context.Context, executable string, out io.Writer) (*forkServer, error) {
	if !canAwaitForked() {
		return nil, errAlone
	}
	p, err := startPython(executable, out, "fork")
	if err != nil {
		return nil, err
	}
	s := &forkServer{process: p, requests: make(chan struct{}, 1), limit: forkLimit}
	s.requests <- struct{}{}
	stop := context.AfterFunc(ctx, p.kill)
	forks, err := s.request(requestStart, 0)
	switch {
	case !stop():
		err = context.Cause(ctx)
	case err == nil && forks == 0:
		err = errAlone
	}
	if err != nil {
		p.kill()
		p.end()
		return nil, err
	}
	return s, nil
}

// request sends a request with descriptors, and returns the number in its answer. pid is the
// process that the request is about, if any.
func (s *forkServer) request(kind byte, pid int, descriptors ...int) (int, error) {
	<-s.requests
	defer func() { s.requests <- struct{}{} }()
	c := s.process.conn
	if kind != requestStart { // which imports NumPy
		_ = c.SetDeadline(time.Now().Add(s.limit))
	}
	message := binary.LittleEndian.AppendUint32([]byte{kind, 0, 0, 0}, uint32(pid))
	err := c.send(message, descriptors)
	var reply [replySize]byte
	if err == nil {
		_, err = io.ReadFull(c, reply[:])
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // a late answer would be taken for that of the next request
		s.process.kill()
	}
	if err != nil {
		return 0, s.process.explain(ended(err))
	}
	if errno := syscall.Errno(binary.LittleEndian.Uint32(reply[:])); errno != 0 {
		return 0, errno
	}
	return int(int32(binary.LittleEndian.Uint32(reply[4:]))), nil
}

// fork forks a process. released is called after its end.
func (s *forkServer) fork(out io.Writer, released func()) (_ *process, err error) {
	here, there, err := childproc.SocketPair("function")
	if err != nil {
		return nil, err
	}
	defer there.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, here.Close())
	}
	defer writer.Close()
	defer func() {
		if err != nil {
			err = errors.Join(err, reader.Close(), here.Close())
		}
	}()
	p := newProcess(here)
	if p.pid, err = s.request(requestFork, 0, int(there.Fd()), int(writer.Fd())); err != nil {
		return nil, fmt.Errorf("forking Python: %w", err)
	}
	p.reap = func() (syscall.WaitStatus, error) {
		status, err := s.request(requestWait, p.pid)
		switch {
		case err != nil && s.process.hasEnded() && s.process.how != nil:
			return 0, fmt.Errorf("its fork server ended: %w", s.process.how)
		case err != nil:
			return 0, errNotSeen
		}
		return syscall.WaitStatus(status), nil
	}
	fd, err := openProcess(p.pid)
	if err != nil {
		p.kill()
		_, _ = p.reap()
		return nil, fmt.Errorf("forking Python: %w", err)
	}
	p.awaitEnd = func() bool {
		defer unix.Close(fd)
		return awaitReadable(fd)
	}
	p.lines = readLines(reader, out)
	p.released = released
	go p.wait()
	return p, nil
}

// awaitReadable waits until a descriptor is readable.
func awaitReadable(fd int) bool {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
