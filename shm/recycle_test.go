//go:build linux

package shm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/proctest"
	"leat/ndarray"
)

func TestFreedMemoryIsRecycled(t *testing.T) {
	s, other := newSharer(t, &Options{Place: Memfd}), newSharer(t, nil)
	first := must(s.Put(numbers(1<<20, 1)))(t)
	seg := first.obj.seg
	h := must(first.Handle())(t)
	reader := must(other.Attach(h, ReadOnly))(t)
	sum := reader.digest()
	check(t, first.Close())
	second := must(s.Put(numbers(1<<20, 2)))(t)
	if second.obj.seg == seg {
		t.Fatal("memory was used again under a reader")
	}
	if reader.digest() != sum {
		t.Fatal("the array changed under its reader")
	}
	check(t, reader.Close())
	// A little smaller and larger, as a class allows.
	for i, n := range []int{1<<20 - 5000, 1 << 20, 1<<20 + 4096} {
		src := numbers(n, uint64(i))
		a := must(s.Put(src))(t)
		if i == 1 && a.obj.seg != seg {
			t.Error("memory that nobody reads was not used again")
		}
		if !bytes.Equal(src, must(Slice[byte](a))(t)) {
			t.Errorf("%d bytes arrived wrong", n)
		}
		if _, err := newSharer(t, nil).Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
			t.Errorf("the old handle: %v", err)
		}
		check(t, a.Close())
	}
	z := must(s.New(ndarray.Uint8, 1<<20))(t)
	if !bytes.Equal(make([]byte, 1<<20), must(Slice[byte](z))(t)) {
		t.Error("a new array is not of zeros")
	}
	if z.obj.seg == seg {
		t.Error("sealed memory was used for an array that others may write")
	}
	check(t, z.Close())
	w := must(s.New(ndarray.Uint8, 1<<20))(t)
	if w.obj.seg != z.obj.seg {
		t.Error("memory that others may write was not used again")
	}
	if !bytes.Equal(make([]byte, 1<<20), must(Slice[byte](w))(t)) {
		t.Error("a new array in used memory is not of zeros")
	}
}

func TestNothingIsKeptBeyondTheLimit(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd, RecycleBytes: 3 << 20})
	before := descriptors(t)
	var list []*Array
	for i := range 10 {
		list = append(list, must(s.Put(numbers(1<<20, uint64(i))))(t))
	}
	for _, a := range list {
		check(t, a.Close())
	}
	if s.recycled.bytes > 3<<20 || len(s.recycled.free) != descriptors(t)-before {
		t.Errorf("%d bytes in %d segments and %d descriptors are kept", s.recycled.bytes, len(s.recycled.free),
			descriptors(t)-before)
	}
}

func init() { children["hammered"] = childHammered }

// childHammered reads handles, a line each with the byte that all elements should be, and checks
// them as long as it has them; it keeps each for a few rounds, and answers each line.
func childHammered(args []string) error {
	in, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer in.Close()
	s, err := Open(nil)
	if err != nil {
		return err
	}
	defer s.Close()
	type kept struct {
		a    *Array
		want byte
	}
	var list []kept
	stale := 0
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<16)
	for lines.Scan() {
		var want byte
		var h string
		if _, err := fmt.Sscan(lines.Text(), &want, &h); err != nil {
			return err
		}
		a, err := s.Attach(Handle(h), ReadOnly)
		switch {
		case errors.Is(err, ErrStale): // it was freed at once
			stale++
		case err != nil:
			return err
		default:
			list = append(list, kept{a, want})
		}
		for _, k := range list {
			b, err := Slice[byte](k.a)
			if err != nil {
				return err
			}
			for i := 0; i < len(b); i += 997 {
				if b[i] != k.want {
					return fmt.Errorf("element %d is %d, not %d", i, b[i], k.want)
				}
			}
		}
		if len(list) > 5 {
			if err := list[0].a.Close(); err != nil {
				return err
			}
			list = list[1:]
		}
	}
	fmt.Printf("stale %d", stale)
	return lines.Err()
}

func TestRecycledMemoryHasNoReaders(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd})
	rounds := 400
	if !testing.Short() {
		rounds = 4000
	}
	segs := map[*segment]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for child := range 2 {
		pipe := fifo(t)
		c := proctest.New("hammered", pipe).Start(t)
		w := must(os.OpenFile(pipe, os.O_WRONLY, 0))(t)
		all.Go(func() {
			var open []*Array
			for i := range rounds {
				size := []int{arenaMax / 2, arenaMax + 4096, 1 << 20}[i%3]
				value := byte(i*2 + child)
				a, err := s.Put(bytes.Repeat([]byte{value}, size))
				if err != nil {
					t.Error(err)
					break
				}
				mu.Lock()
				segs[a.obj.seg] = true
				mu.Unlock()
				h, err := a.Handle()
				if err == nil {
					_, err = fmt.Fprintf(w, "%d %s\n", value, h)
				}
				if err != nil {
					t.Error(err)
					break
				}
				// Most are freed long after they were sent, some at once.
				if open = append(open, a); len(open) > i%40 {
					for _, a := range open {
						if err := a.Close(); err != nil {
							t.Error(err)
						}
					}
					open = open[:0]
				}
			}
			w.Close()
			if _, output, err := c.Wait(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
	all.Wait()
	t.Logf("%d arrays in %d segments", 2*rounds, len(segs))
	if len(segs) > rounds {
		t.Error("memory was hardly used again")
	}
}

func TestSmallArraysShareDescriptors(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd})
	before := descriptors(t)
	var list []*Array
	for i := range 3000 {
		src := numbers(1+i%5000, uint64(i))
		a := must(s.Put(src))(t)
		if uintptr(address(must(Slice[byte](a))(t)))%entryAlign != 0 {
			t.Fatal("not aligned")
		}
		list = append(list, a)
	}
	if n := descriptors(t) - before; n > 4 {
		t.Errorf("%d descriptors", n)
	}
	for i, a := range list {
		if !bytes.Equal(must(Slice[byte](a))(t), numbers(1+i%5000, uint64(i))) {
			t.Fatalf("array %d changed", i)
		}
	}
	for _, a := range list {
		check(t, a.Close())
	}
	// Their arenas are used again.
	for i := range 20000 {
		a := must(s.Put(numbers(2000, uint64(i))))(t)
		check(t, a.Close())
	}
	if n := descriptors(t) - before; n > 4 {
		t.Errorf("%d descriptors after 20000 more", n)
	}
}

func TestAttachedArrayOutlivesItsMaker(t *testing.T) {
	pipe := fifo(t)
	c := proctest.New("maker", pipe).Start(t)
	out := must(os.Open(pipe))(t)
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	s := newSharer(t, nil)
	var arrays []*Array
	handles := strings.Fields(line)
	for _, h := range handles {
		arrays = append(arrays, must(s.Attach(Handle(h), ReadOnly))(t))
	}
	c.Kill()
	c.Wait()
	check(t, out.Close())
	for i, a := range arrays {
		if !bytes.Equal(must(Slice[byte](a))(t), numbers(a.Shape()[0], 9)) {
			t.Errorf("array %d changed", i)
		}
		if _, err := newSharer(t, nil).Attach(Handle(handles[i]), ReadOnly); !errors.Is(err, ErrStale) {
			t.Errorf("the handle of a dead process: %v", err)
		}
		check(t, a.Close())
	}
	// The next attach gives up what is left of it.
	other := newSharer(t, nil)
	check(t, must(s.Attach(must(must(other.Put(numbers(1<<20, 1)))(t).Handle())(t), ReadOnly))(t).Close())
	if s.reg.idle != 1 {
		t.Errorf("%d idle mappings", s.reg.idle)
	}
}

func init() { children["maker"] = childMaker }

// childMaker makes two arrays, sends their handles, and waits to be killed.
func childMaker(args []string) error {
	s, err := Open(nil)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, n := range []int{1000, 1 << 20} {
		a, err := s.Put(numbers(n, 9))
		if err != nil {
			return err
		}
		h, err := a.Handle()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s ", h); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out)
	time.Sleep(time.Minute)
	return err
}
