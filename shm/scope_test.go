//go:build linux

package shm

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/ndarray"
)

func TestScopeFreesItsArrays(t *testing.T) {
	s, other := newSharer(t, nil), newSharer(t, nil)
	first, second := must(s.Scope())(t), must(s.Scope())(t)
	var handles []Handle
	kept := must(s.Put(numbers(1<<20, 0)))(t)
	for _, c := range []*Scope{first, second} {
		handles = append(handles, must(must(c.Put(numbers(1<<20, 1)))(t).Handle())(t),
			must(must(c.Put([]byte{1}))(t).Handle())(t),
			must(must(c.New(ndarray.Int8, 5))(t).Handle())(t), must(c.Pack(numbers(2<<20, 1)))(t))
	}
	gone := func(list []Handle, want bool) {
		t.Helper()
		for i, h := range list {
			a, err := other.Attach(h, ReadOnly)
			if want != errors.Is(err, ErrStale) || !want && err != nil {
				t.Errorf("array %d: %v", i, err)
			}
			if err == nil {
				check(t, a.Close())
			}
		}
	}
	check(t, second.Close())
	gone(handles[:4], false)
	gone(handles[4:], true)
	check(t, second.Close())
	if _, err := second.Put([]byte{1}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if len(s.scopes) != 1 || len(s.arrays) != 1 {
		t.Errorf("%d scopes and %d arrays are open, expected 1 each", len(s.scopes), len(s.arrays))
	}
	kept.digest()
	check(t, s.Close())
	gone(handles, true)
	check(t, first.Close())
	check(t, s.Close())
	if _, err := first.Put([]byte{1}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Scope(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestArrayOfTwoScopes(t *testing.T) {
	s, other := newSharer(t, nil), newSharer(t, nil)
	short, long := must(s.Scope())(t), must(s.Scope())(t)
	a := must(short.Put(numbers(1<<20, 1)))(t)
	b := must(long.Put(a))(t)
	h := must(b.Handle())(t)
	check(t, short.Close())
	check(t, must(other.Attach(h, ReadOnly))(t).Close())
	if must(Slice[byte](b))(t)[0] != numbers(1, 1)[0] {
		t.Error("it changed")
	}
	check(t, long.Close())
	if _, err := other.Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
}

func TestSmallArraysTravelInHandles(t *testing.T) {
	for _, limit := range []int64{1000, -1} {
		s, other := newSharer(t, &Options{MaxInlineBytes: limit}), newSharer(t, nil)
		for _, n := range []int{0, 1, 1000, 1001, 100_000} {
			src := numbers(n, 1)
			h := must(s.Pack(src))(t)
			if want := limit < 0 || int64(n) <= limit; isInline(h) != want {
				t.Errorf("%d bytes, limit %d: inline %v", n, limit, isInline(h))
			}
			r := must(other.Attach(h, ReadOnly))(t)
			c := must(other.Attach(h, CopyOnWrite))(t)
			if r.Mode() != ReadOnly || c.Mode() != CopyOnWrite {
				t.Error(r.Mode(), c.Mode())
			}
			if _, err := other.Attach(h, ReadWrite); !errors.Is(err, errSealed) {
				t.Errorf("r+ of %d bytes: %v", n, err)
			}
			if string(must(Slice[byte](r))(t)) != string(src) {
				t.Errorf("%d bytes arrived wrong", n)
			}
			if n > 0 {
				must(Slice[byte](c))(t)[0]++
				if must(Slice[byte](r))(t)[0] != src[0] {
					t.Error("a copy is shared")
				}
			}
			check(t, r.Close())
			check(t, c.Close())
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	isolate(t)
	s, other := newSharer(t, &Options{RecycleBytes: 8 << 20}),
		newSharer(t, &Options{RecycleBytes: 4 << 20})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			scope, err := s.Scope()
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 60 {
				src := numbers([]int{10, 5000, arenaMax + 1, 300_000}[i%4], uint64(i+g%2))
				a, err := scope.Put(src)
				if err != nil {
					t.Error(err)
					return
				}
				h, err := a.Handle()
				if err != nil {
					t.Error(err)
					return
				}
				mode := []Mode{ReadOnly, ReadOnly, CopyOnWrite}[i%3]
				b, err := other.Attach(h, mode)
				if err != nil {
					t.Error(err)
					return
				}
				if b.digest() != a.digest() {
					t.Error("it arrived wrong")
				}
				if err := errors.Join(b.Close(), a.Close()); err != nil {
					t.Error(err)
				}
			}
			if err := scope.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(s.reg.objects) != 0 {
		t.Errorf("%d objects are left", len(s.reg.objects))
	}
}

func TestCloseOfPoolInUse(t *testing.T) {
	isolate(t)
	maker := newSharer(t, nil)
	h := must(must(maker.Put(numbers(1<<20, 1)))(t).Handle())(t)
	before := descriptors(t)
	for range 30 {
		s := must(Open(nil))(t)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := 0; ; i++ {
					var err error
					switch (g + i) % 4 {
					case 0:
						_, err = s.Put([]int{1, 2, 3})
					case 1:
						_, err = s.Put(make([]byte, arenaMax+1))
					case 2:
						_, err = s.New(ndarray.Int8, 100)
					default:
						_, err = s.Attach(h, ReadOnly)
					}
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		check(t, s.Close())
		all.Wait()
	}
	if n := descriptors(t) - before; n != 0 {
		t.Errorf("%d descriptors leaked", n)
	}
}

// TestCloseWaitsForRunningCalls stops calls half-way and closes their Pool.
func TestCloseWaitsForRunningCalls(t *testing.T) {
	isolate(t)
	type pool struct {
		*Pool
		shared *Array
	}
	for name, c := range map[string]struct {
		point string
		call  func(p pool, to *net.UnixConn) error
	}{
		"Put": {"shm.filling", func(p pool, _ *net.UnixConn) error {
			_, err := p.Put(make([]byte, arenaMax+1))
			return err
		}},
		"Send": {"shm.handing", func(p pool, to *net.UnixConn) error { return p.shared.Send(t.Context(), to) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := must(Open(nil))(t)
			p := pool{s, must(s.New(ndarray.Uint8, arenaMax+1))(t)}
			to, file, err := SocketPair()
			check(t, err)
			defer to.Close()
			defer file.Close()
			reached, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			fault.Set(func(point string) error {
				if point == c.point {
					once.Do(func() { close(reached); <-goOn })
				}
				return nil
			})
			defer fault.Set(nil)
			called, closed := make(chan error, 1), make(chan error, 1)
			go func() { called <- c.call(p, to) }()
			<-reached
			go func() { closed <- s.Close() }()
			for { // until Close has begun
				if _, err := s.Put([]byte{1}); errors.Is(err, ErrClosed) {
					break
				}
				runtime.Gosched()
			}
			select {
			case err := <-closed:
				t.Errorf("Close returned %v during a call", err)
			default:
			}
			close(goOn)
			check(t, <-called)
			check(t, <-closed)
			check(t, s.Close())
		})
	}
}

// TestCloseDuringBlockedSend closes a Pool whose Send waits for the other process to read.
func TestCloseDuringBlockedSend(t *testing.T) {
	isolate(t)
	s, other := must(Open(nil))(t), newSharer(t, nil)
	a := must(s.Put(numbers(arenaMax+1, 1)))(t)
	to, file, err := SocketPair()
	check(t, err)
	defer to.Close()
	conn, err := net.FileConn(file)
	check(t, errors.Join(err, file.Close()))
	from := conn.(*net.UnixConn)
	defer from.Close()
	raw := must(to.SyscallConn())(t)
	var filler int64
	check(t, raw.Write(func(fd uintptr) bool { // until the socket takes no more
		for b := make([]byte, 1<<10); ; {
			n, err := unix.Write(int(fd), b)
			if err != nil {
				return errors.Is(err, unix.EAGAIN)
			}
			filler += int64(n)
		}
	}))
	handing := make(chan struct{})
	fault.Set(func(point string) error {
		if point == "shm.handing" {
			close(handing)
		}
		return nil
	})
	defer fault.Set(nil)
	sent := make(chan error, 1)
	go func() { sent <- a.Send(t.Context(), to) }()
	<-handing
	check(t, s.Close())
	select {
	case err := <-sent:
		t.Errorf("Send returned %v", err)
	default:
	}
	must(io.CopyN(io.Discard, from, filler))(t)
	b := must(other.Receive(t.Context(), from))(t)
	check(t, <-sent)
	if got := must(Slice[uint8](b))(t); !bytes.Equal(got, numbers(arenaMax+1, 1)) {
		t.Error("other bytes")
	}
}
