//go:build linux

package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkCreateAndClose(b *testing.B) {
	for _, n := range []int64{10, 1e6, 1e8} {
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			dir := b.TempDir()
			b.ReportAllocs()
			for b.Loop() {
				must(b, ok(Create(n, &Options{Dir: dir}))(b).Close())
			}
		})
	}
}

// sizes are those of the peers' measurements.
var sizes = map[string]int{"1KiB": 1 << 10, "110KiB": 110 << 10}

// filledCache has 1000 entries, all touched.
func filledCache(b *testing.B, size int, o *Options) *Cache {
	c := create(b, 1000, o)
	data := make([]byte, size)
	for i := range int64(1000) {
		put(b, c, i, string(data))
	}
	return c
}

var benchSink byte

func BenchmarkView(b *testing.B) {
	for name, size := range sizes {
		for mode, o := range map[string]*Options{"first": {}, "always": {Verify: VerifyAlways}} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				o := *o
				o.Dir = b.TempDir()
				c := filledCache(b, size, &o)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				i := int64(0)
				for b.Loop() {
					i = (i + 7) % 1000
					if err := c.View(i, func(data []byte) error { benchSink = data[size/2]; return nil }); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkViewByAllProcessors(b *testing.B) {
	c := filledCache(b, 110<<10, &Options{Dir: b.TempDir()})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := rand.Int64N(1000)
		for pb.Next() {
			i = (i + 7) % 1000
			if err := c.View(i, func(data []byte) error { _ = data[0]; return nil }); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			c := filledCache(b, size, &Options{Dir: b.TempDir()})
			b.ReportAllocs()
			b.SetBytes(int64(size))
			i := int64(0)
			for b.Loop() {
				i = (i + 7) % 1000
				if _, err := c.Get(i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGetRecycled(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			c := filledCache(b, size, &Options{Dir: b.TempDir()})
			b.ReportAllocs()
			b.SetBytes(int64(size))
			i := int64(0)
			for b.Loop() {
				i = (i + 7) % 1000
				data, err := c.Get(i)
				if err != nil {
					b.Fatal(err)
				}
				c.Recycle(data)
			}
		})
	}
}

func BenchmarkMiss(b *testing.B) {
	for place, dir := range map[string]string{"disk": b.TempDir(), "memory": inMemory(b)} {
		b.Run(place, func(b *testing.B) {
			c := create(b, 1000, &Options{Dir: dir})
			for b.Loop() {
				if _, err := c.Get(1); !errors.Is(err, ErrMiss) {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	for name, size := range sizes {
		for place, dir := range map[string]string{"disk": b.TempDir(), "memory": inMemory(b)} {
			b.Run(name+"/"+place, func(b *testing.B) {
				data := make([]byte, size)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				var c *Cache
				i, most := int64(0), int64(2<<30/size)
				for b.Loop() {
					if i%most == 0 { // not all of the machine's memory
						b.StopTimer()
						if c != nil {
							must(b, c.Close())
						}
						c = ok(Create(most, &Options{Dir: dir}))(b)
						b.StartTimer()
					}
					if !ok(c.Put(i%most, data))(b) {
						b.Fatal("not stored")
					}
					i++
				}
				must(b, c.Close())
			})
		}
	}
}
