//go:build linux

package shm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
	"leat/ndarray"
)

func init() {
	children["hand over"] = childHandOver
	children["take over"] = childTakeOver
}

// childHandOver is a worker that makes an array, hands it over through the socket of that name, and
// exits at once.
func childHandOver(args []string) error {
	s, err := Open(&Options{Place: Place(slices.Index(placeNames[:], args[1]))})
	if err != nil {
		return err
	}
	a, err := s.Put(numbers(handedBytes, 1))
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	return a.Send(context.Background(), c.(*net.UnixConn))
}

const handedBytes = 1 << 20

// childTakeOver receives an array and waits to be killed.
func childTakeOver(args []string) error {
	s, err := Open(nil)
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	a, err := s.Receive(context.Background(), c.(*net.UnixConn))
	if err != nil {
		return err
	}
	h, err := a.Handle()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c, h); err != nil {
		return err
	}
	for { // until it is killed; all goroutines in select {} would be a deadlock
		time.Sleep(time.Hour)
		runtime.KeepAlive(a)
	}
}

// listen opens a socket for children to dial.
func listen(t testing.TB) (name string, accept func() *net.UnixConn) {
	t.Helper()
	dir := must(os.MkdirTemp("/tmp", "leat-shm-"))(t) // short: names of sockets have at most 108 bytes
	t.Cleanup(func() { os.RemoveAll(dir) })
	name = filepath.Join(dir, "s")
	l := must(net.Listen("unix", name))(t)
	t.Cleanup(func() { l.Close() })
	return name, func() *net.UnixConn {
		c := must(l.Accept())(t).(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// pair is a socket whose ends are both here.
func pair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	a, file, err := SocketPair()
	check(t, err)
	defer file.Close()
	b = must(net.FileConn(file))(t).(*net.UnixConn)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func eachPlace(t *testing.T, f func(t *testing.T, place Place, run, temp string)) {
	for _, place := range []Place{Memfd, Named, Temp} {
		t.Run(place.String(), func(t *testing.T) {
			run, temp := isolate(t)
			f(t, place, run, temp)
		})
	}
}

// nothingIsLeft checks for files and memory, after the leftovers of killed processes were swept.
func nothingIsLeft(t *testing.T, run, temp string) {
	t.Helper()
	must(GC(nil, false))(t)
	if left := leftovers(t, run, temp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if n := memfds(t); n != 0 {
		t.Errorf("%d objects in memory are left", n)
	}
}

// joblib: the result of a worker that ends is gone, or stays for ever.
func TestHandedOverArrayOutlivesWorker(t *testing.T) {
	eachPlace(t, func(t *testing.T, place Place, run, temp string) {
		name, accept := listen(t)
		for point, arrives := range map[string]bool{"": true, "shm.handing": false, "shm.handed": true} {
			worker := proctest.New("hand over", name, place.String())
			if point != "" {
				worker.KillAt(point, 1)
			}
			worker.Start(t)
			c := accept()
			killed, output, err := worker.Wait() // it is gone before anybody receives
			if killed != (point != "") || !killed && err != nil {
				t.Fatalf("%q: killed %v, %v\n%s", point, killed, err, output)
			}
			must(GC(nil, false))(t) // what is on its way is not a leftover
			s := newSharer(t, nil)
			a, err := s.Receive(t.Context(), c)
			if !arrives {
				if !errors.Is(err, io.EOF) {
					t.Errorf("killed before it was sent: %v", err)
				}
				nothingIsLeft(t, run, temp)
				continue
			}
			check(t, err)
			must(GC(nil, false))(t)
			if a.Mode() != ReadOnly || !bytes.Equal(must(Slice[byte](a))(t), numbers(handedBytes, 1)) {
				t.Errorf("%q: it arrived wrong", point)
			}
			h := must(a.Handle())(t)
			if got := elsewhere(t, ReadOnly, h,
				must(must(a.Sub(5, []int{10}, []int{2}))(t).Handle())(t)); got[0] != fmt.Sprintf("%x",
				a.digest()) || strings.Contains(got[1], " ") {
				t.Errorf("%q: others find %q", point, got)
			}
			if got := elsewhere(t, ReadWrite, h); !strings.Contains(got[0], "sealed") {
				t.Errorf("others may write: %q", got)
			}
			path, _, err := a.File()
			check(t, err)
			check(t, a.Close())
			if _, err := newSharer(t, nil).Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
				t.Errorf("%q: after its Close: %v", point, err)
			}
			if place != Memfd {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("Close left %s", path)
				}
			}
			check(t, s.Close())
			nothingIsLeft(t, run, temp)
		}
	})
}

func TestAKilledReceiverLeavesNothing(t *testing.T) {
	eachPlace(t, func(t *testing.T, place Place, run, temp string) {
		for _, point := range []string{"shm.receiving", "shm.received", ""} {
			name, accept := listen(t)
			receiver := proctest.New("take over", name)
			if point != "" {
				receiver.KillAt(point, 1)
			}
			receiver.Start(t)
			c := accept()
			s := newSharer(t, &Options{Place: place})
			a := must(s.Put(numbers(handedBytes, 1)))(t)
			check(t, a.Send(t.Context(), c))
			check(t, s.Close())
			if point == "" { // it has the array
				var h [500]byte
				n := must(c.Read(h[:]))(t)
				if got := elsewhere(t, ReadOnly, Handle(strings.TrimSpace(string(h[:n])))); strings.Contains(got[0],
					" ") {
					t.Error(got)
				}
				receiver.Kill()
			}
			if killed, output, err := receiver.Wait(); !killed {
				t.Fatalf("%q: %v\n%s", point, err, output)
			}
			nothingIsLeft(t, run, temp)
		}
	})
}

func TestUnreceivedArrayIsFreed(t *testing.T) {
	eachPlace(t, func(t *testing.T, place Place, run, temp string) {
		name, accept := listen(t)
		worker := proctest.New("hand over", name, place.String()).Start(t)
		c := accept()
		if _, output, err := worker.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		must(GC(nil, false))(t)
		if n := len(leftovers(t, run, temp)); (n == 1) != (place != Memfd) {
			t.Errorf("%d files while it is on its way", n)
		}
		check(t, c.Close())
		nothingIsLeft(t, run, temp)
	})
}

// The memory is the receiver's: its sender must not use it for the next array.
func TestHandedOverMemoryIsNotRecycled(t *testing.T) {
	eachPlace(t, func(t *testing.T, place Place, run, temp string) {
		s, r := newSharer(t, &Options{Place: place}), newSharer(t, nil)
		from, to := pair(t)
		var got []*Array
		for i := range 5 {
			a := must(s.Put(numbers(handedBytes, uint64(i))))(t)
			check(t, a.Send(t.Context(), from))
			check(t, a.Close())
			got = append(got, must(r.Receive(t.Context(), to))(t))
		}
		check(t, s.Close())
		for i, a := range got {
			if !bytes.Equal(must(Slice[byte](a))(t), numbers(handedBytes, uint64(i))) {
				t.Errorf("array %d changed", i)
			}
		}
		before := descriptors(t)
		check(t, r.Close())
		if place == Memfd && descriptors(t) != before-5 {
			t.Errorf("%d descriptors, %d before", descriptors(t), before)
		}
		nothingIsLeft(t, run, temp)
	})
}

func TestEveryKindOfArrayIsHandedOverAsItIs(t *testing.T) {
	isolate(t)
	s, r := newSharer(t, nil), newSharer(t, nil)
	from, to := pair(t)
	matrix := make([]float32, 300*200)
	for i := range matrix {
		matrix[i] = float32(i)
	}
	whole := must(s.Put(matrix, 300, 200))(t)
	open := must(s.New(ndarray.Int16, 100_000))(t)
	must(Slice[int16](open))(t)[7] = 7
	private := must(s.Attach(must(must(s.Put(matrix, 100, 600))(t).Handle())(t), CopyOnWrite))(t)
	must(Slice[float32](private))(t)[3] = -1
	for what, a := range map[string]*Array{
		"small":    must(s.Put([]byte{1, 2, 3}))(t),
		"empty":    must(s.Put([]float64{}))(t),
		"open":     open,
		"a view":   must(whole.Sub(4*(200*300-1), []int{150, 100}, []int{-1600, -8}))(t),
		"a copy":   private,
		"inline":   must(s.Attach(must(s.Pack([]int32{4, 5}))(t), ReadOnly))(t),
		"received": must(r.Put(matrix[:50_000]))(t), // and back to its maker
	} {
		want, shape := a.digest(), fmt.Sprint(a.Shape(), a.Descr())
		if what == "received" {
			check(t, a.Send(t.Context(), from))
			b := must(s.Receive(t.Context(), to))(t)
			check(t, a.Close())
			a = b
		}
		if err := a.Send(t.Context(), from); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		check(t, a.Close())
		b := must(r.Receive(t.Context(), to))(t)
		if b.digest() != want || fmt.Sprint(b.Shape(), b.Descr()) != shape {
			t.Errorf("%s: it arrived otherwise", what)
		}
		if got := elsewhere(t, ReadOnly, must(b.Handle())(t)); got[0] != fmt.Sprintf("%x", want) {
			t.Errorf("%s: others find %q", what, got)
		}
		check(t, b.Close())
	}
}

func TestAnAttachedArrayIsSentAsItsHandle(t *testing.T) {
	isolate(t)
	maker, worker := newSharer(t, nil), newSharer(t, nil)
	from, to := pair(t)
	a := must(maker.Put(numbers(handedBytes, 1)))(t)
	b := must(worker.Attach(must(a.Handle())(t), ReadOnly))(t)
	check(t, b.Send(t.Context(), from))
	check(t, b.Close())
	c := must(maker.Receive(t.Context(), to))(t)
	if &must(Slice[byte](c))(t)[0] != &must(Slice[byte](a))(t)[0] {
		t.Error("its maker got a copy")
	}
}

func TestHandlesOfSenderAndReceiver(t *testing.T) {
	eachPlace(t, func(t *testing.T, place Place, run, temp string) {
		s, r, third := newSharer(t, &Options{Place: place}), newSharer(t, nil), newSharer(t, nil)
		from, to := pair(t)
		a := must(s.Put(numbers(handedBytes, 1)))(t)
		old := must(a.Handle())(t)
		early := must(r.Attach(old, ReadOnly))(t) // the receiver knows it already
		kept := must(third.Attach(old, ReadOnly))(t)
		check(t, a.Send(t.Context(), from))
		if err := a.Send(t.Context(), from); err == nil {
			t.Error("it was handed over twice")
		}
		b := must(r.Receive(t.Context(), to))(t)
		h := must(b.Handle())(t)
		for _, h := range []Handle{old, h} {
			for _, at := range []*Pool{r, third, newSharer(t, nil)} {
				c := must(at.Attach(h, ReadOnly))(t)
				if c.digest() != a.digest() {
					t.Error("another array")
				}
				check(t, c.Close())
			}
		}
		check(t, a.Close())
		want := early.digest()
		for _, at := range []*Pool{third, newSharer(t, nil)} {
			c := must(at.Attach(h, ReadOnly))(t)
			check(t, c.Close())
			if _, err := at.Attach(old, ReadOnly); place == Memfd && !errors.Is(err, ErrStale) {
				t.Errorf("the sender's handle after its Close: %v", err)
			}
		}
		check(t, early.Close())
		check(t, b.Close())
		if kept.digest() != want {
			t.Error("what another process has attached changed")
		}
		for _, at := range []*Pool{r, third, newSharer(t, nil)} {
			for _, h := range []Handle{old, h} {
				if _, err := at.Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
					t.Errorf("after the receiver's Close: %v", err)
				}
			}
		}
		check(t, kept.Close())
		for _, x := range []*Pool{s, r, third} {
			check(t, x.Close())
		}
		nothingIsLeft(t, run, temp)
	})
}

func TestSendWithWriters(t *testing.T) {
	isolate(t)
	s, other := newSharer(t, nil), newSharer(t, nil)
	from, to := pair(t)
	a := must(s.New(ndarray.Uint8, handedBytes))(t)
	w := must(other.Attach(must(a.Handle())(t), ReadWrite))(t)
	if err := a.Send(t.Context(), from); !errors.Is(err, ErrWriters) {
		t.Errorf("%v", err)
	}
	must(Slice[byte](w))(t)[0] = 9
	check(t, w.Close())
	check(t, a.Send(t.Context(), from))
	if b := must(other.Receive(t.Context(), to))(t); must(Slice[byte](b))(t)[0] != 9 {
		t.Error("it arrived otherwise")
	}
}

func TestReceiveRefusesInvalidMessages(t *testing.T) {
	isolate(t)
	s := newSharer(t, nil)
	a := must(s.Put(numbers(handedBytes, 1)))(t)
	h := must(a.Handle())(t)
	open := must(s.New(ndarray.Uint8, handedBytes))(t)
	null := must(os.Open("/dev/null"))(t)
	defer null.Close()
	head := func(kind byte, size int) string {
		return handMagic + string(kind) + string([]byte{byte(size), byte(size >> 8), 0, 0})
	}
	message := head(handDescriptor, len(h)) + string(h)
	openHandle := string(must(open.Handle())(t))
	for what, test := range map[string]struct {
		text string
		fds  []int
		want error
	}{
		"nothing":               {"", nil, io.EOF},
		"half a head":           {message[:5], nil, io.ErrUnexpectedEOF},
		"half a handle":         {message[:50], []int{a.obj.seg.fd}, io.ErrUnexpectedEOF},
		"other text":            {"GET / HTTP/1.1\r\n\r\n", nil, errHandle},
		"a descriptor too few":  {message, nil, errHandle},
		"a descriptor too many": {message, []int{a.obj.seg.fd, a.obj.seg.fd}, errHandle},
		"a descriptor unasked":  {head(handHandle, len(h)) + string(h), []int{a.obj.seg.fd}, errHandle},
		"a device":              {message, []int{int(null.Fd())}, errHandle},
		"memory that is not sealed": {head(handDescriptor, len(openHandle)) + openHandle, []int{open.obj.seg.fd},
			errHandle},
		"another array": {head(handDescriptor, len(openHandle)) + openHandle, []int{a.obj.seg.fd},
			ErrStale},
		"no handle": {head(handDescriptor, 3) + "abc", []int{a.obj.seg.fd}, errHandle},
	} {
		r := newSharer(t, nil)
		from, to := pair(t)
		if test.text != "" {
			if _, _, err := from.WriteMsgUnix([]byte(test.text), unix.UnixRights(test.fds...), nil); err != nil {
				t.Fatal(err)
			}
		}
		check(t, from.Close())
		before := descriptors(t)
		if _, err := r.Receive(t.Context(), to); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", what, err)
		}
		if n := descriptors(t); n != before {
			t.Errorf("%s: %d descriptors, %d before", what, n, before)
		}
	}
	if _, err := s.Receive(t.Context(), nil); err == nil {
		t.Error("no socket was taken")
	}
}

func TestTheEndOfACtxInterruptsAHandOver(t *testing.T) {
	isolate(t)
	s := newSharer(t, nil)
	from, to := pair(t)
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Receive(ctx, to)
		done <- err
	}()
	cancel(boom)
	if err := <-done; !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	a := must(s.Put(numbers(handedBytes, 1)))(t)
	if err := a.Send(ctx, from); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	check(t, a.Send(t.Context(), from)) // it is still this process's
}

// A child gets the socket as a descriptor.
func TestAPairOfSocketsReachesAChild(t *testing.T) {
	c, file, err := SocketPair()
	check(t, err)
	defer c.Close()
	cmd := exec.Command("sh", "-c", "printf hello >&3")
	cmd.ExtraFiles = []*os.File{file}
	check(t, cmd.Run())
	check(t, file.Close())
	if got := must(io.ReadAll(c))(t); string(got) != "hello" {
		t.Errorf("%q", got)
	}
}
