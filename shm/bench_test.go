//go:build unix

package shm

import (
	"fmt"
	"testing"

	"leat/ndarray"
)

func newSharer(t testing.TB, o *Options) *Pool {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 100 << 20, 1 << 30} {
		src := make([]byte, size)
		for i := range src {
			src[i] = byte(i)
		}
		for _, fresh := range []bool{true, false} {
			name := fmt.Sprintf("%dKiB/recycled", size>>10)
			o := &Options{}
			if fresh {
				name = fmt.Sprintf("%dKiB/fresh", size>>10)
				o.RecycleBytes = -1
			}
			b.Run(name, func(b *testing.B) {
				s := newSharer(b, o)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					a, err := s.Put(src)
					if err != nil {
						b.Fatal(err)
					}
					b.StopTimer() // giving memory back takes a quarter of the time
					if err := a.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
		}
	}
}

func BenchmarkAttach(b *testing.B) {
	maker, s := newSharer(b, nil), newSharer(b, nil)
	a, err := maker.Put(make([]float32, 1<<20), 1024, 1024)
	if err != nil {
		b.Fatal(err)
	}
	small, err := maker.Put(make([]float32, 10))
	if err != nil {
		b.Fatal(err)
	}
	for name, a := range map[string]*Array{"whole": a, "small": small} {
		h, err := a.Handle()
		if err != nil {
			b.Fatal(err)
		}
		b.Run("known/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a, err := s.Attach(h, ReadOnly)
				if err != nil {
					b.Fatal(err)
				}
				if err := a.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("first/"+name, func(b *testing.B) {
			s := newSharer(b, &Options{RecycleBytes: -1}) // keeps no mapping
			b.ReportAllocs()
			for b.Loop() {
				a, err := s.Attach(h, ReadOnly)
				if err != nil {
					b.Fatal(err)
				}
				if err := a.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPackOfASmallArray(b *testing.B) {
	s := newSharer(b, nil)
	v := ndarray.New(ndarray.Float64, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Pack(v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHandleOf(b *testing.B) {
	s := newSharer(b, nil)
	a, err := s.Put(make([]float64, 1<<16), 256, 256)
	if err != nil {
		b.Fatal(err)
	}
	v := a.View().At(3)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.HandleOf(v); err != nil {
			b.Fatal(err)
		}
	}
}
