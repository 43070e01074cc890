package bytepool

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

func TestClassesAreOrdered(t *testing.T) {
	last := -1
	for n := range 1 << 16 {
		k := class(n)
		if k < last || k > last+1 {
			t.Fatalf("%d bytes are in class %d, those before in %d", n, k, last)
		}
		last = k
	}
	if got := class(smallest - 1); got != -1 {
		t.Errorf("class %d below the smallest", got)
	}
	if got := class(math.MaxInt); got != classCount-1 {
		t.Errorf("class %d of the largest, expected %d", got, classCount-1)
	}
}

// TestReuse takes slices until one is recycled: a sync.Pool may drop any.
func TestReuse(t *testing.T) {
	var p Pool
	for _, n := range []int{2 * smallest, 5000, 100 << 10, 110 << 10} {
		reused := false
		for try := 0; try < 1000 && !reused; try++ {
			a := p.Get(n)
			p.Put(a)
			get := p.Get
			if try%2 == 1 {
				get = func(n int) []byte { return p.Clone(make([]byte, n)) }
			}
			b := get(n - n/50)
			reused = &a[0] == &b[0]
			if len(b) != n-n/50 || reused && cap(b) != cap(a) {
				t.Fatalf("got %d bytes, capacity %d, expected %d of %d", len(b), cap(b), n-n/50, cap(a))
			}
		}
		if !reused {
			t.Errorf("%d bytes are never reused", n)
		}
	}
}

func TestShortSlicesAreNotLent(t *testing.T) {
	var p Pool
	for range 100 {
		p.Put(make([]byte, 100<<10))
		p.Put(make([]byte, smallest-1))
		if b := p.Get(110 << 10); len(b) != 110<<10 {
			t.Fatalf("got %d bytes", len(b))
		}
		if b := p.Get(0); b == nil || len(b) != 0 {
			t.Fatalf("got %v for 0 bytes", b)
		}
		if b := p.Clone(nil); b == nil || len(b) != 0 {
			t.Fatalf("got %v as a copy of 0 bytes", b)
		}
	}
	p.Put(nil)
}

// TestMemoryDoesNotShrink holds slices of many sizes and recycles one for each that it takes.
func TestMemoryDoesNotShrink(t *testing.T) {
	var p Pool
	r := rand.New(rand.NewPCG(1, 2))
	size := func() int { return int(smallest * math.Exp2(r.Float64()*6)) }
	whole := map[*byte]int{} // bytes of memory by its first
	held := make([][]byte, 100)
	for range 5000 {
		k := r.IntN(len(held))
		p.Put(held[k])
		b := p.Get(size())
		if whole[&b[0]] == 0 {
			whole[&b[0]] = cap(b)
		}
		held[k] = b
	}
	for _, b := range held {
		if n := whole[&b[0]]; n > len(b)*3/2+1 {
			t.Errorf("%d bytes take %d of memory", len(b), n)
		}
	}
}

func TestNoSliceIsLentTwice(t *testing.T) {
	var p Pool
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				b := p.Clone(bytes.Repeat([]byte{byte(g)}, 4096+i%3000))
				for _, v := range b {
					if v != byte(g) {
						t.Error("another goroutine has the same bytes")
						return
					}
				}
				p.Put(b)
			}
		})
	}
	wg.Wait()
}

func TestNewMemoryIsOfOneSlice(t *testing.T) {
	for _, n := range []int{1, smallest, 5000, 100 << 10, 3 << 20} {
		var all [][]byte
		for i := range 20 {
			b := unzeroed(n)
			if len(b) != n || cap(b) != n {
				t.Fatalf("%d bytes of %d, expected %d", len(b), cap(b), n)
			}
			for j := range b {
				b[j] = byte(i)
			}
			if all = append(all, b); i%5 == 4 {
				runtime.GC()
			}
		}
		for i, b := range all {
			if bytes.Count(b, []byte{byte(i)}) != n {
				t.Fatalf("slice %d of %d bytes shares memory", i, n)
			}
		}
	}
}

func TestNewMemoryIsNotMarked(t *testing.T) {
	var p Pool
	for range 1000 {
		b := p.Get(5000)
		if bytes.HasPrefix(b, mark) {
			t.Fatal("memory that nobody recycled is marked")
		}
		copy(b, mark) // as the pool marks what the collector then frees
		if b = p.Get(5000); bytes.HasPrefix(b, mark) {
			t.Fatal("memory that nobody recycled is marked")
		}
	}
}

func BenchmarkGet(b *testing.B) {
	var p Pool
	for _, n := range []int{4 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				p.Get(n)
			}
		})
	}
}

func BenchmarkRecycle(b *testing.B) {
	var p Pool
	b.ReportAllocs()
	for b.Loop() {
		p.Put(p.Get(110 << 10))
	}
}

func TestRecycledTwice(t *testing.T) {
	for _, n := range []int{smallest, 100 << 10} {
		var p, other Pool
		a := p.Get(n)
		p.Put(a)
		p.Put(a)
		other.Put(a[:0])
		x, y, z := p.Get(n), p.Clone(make([]byte, n)), other.Get(n)
		if &x[0] == &y[0] || &x[0] == &z[0] || &y[0] == &z[0] {
			t.Errorf("memory of %d bytes was lent twice", n)
		}
	}
}

// TestUnchangedSliceIsReused recycles slices that the caller did not write to.
func TestUnchangedSliceIsReused(t *testing.T) {
	var p Pool
	a := p.Get(100 << 10)
	reused := 0
	for range 1000 {
		p.Put(a)
		b := p.Get(100 << 10)
		if &a[0] == &b[0] {
			reused++
		}
		a = b
	}
	if reused == 0 {
		t.Error("never reused")
	}
}
