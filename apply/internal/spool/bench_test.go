package spool

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAppend appends records of 2.9 MB, those of NDVI in blocks of a million pixels, by
// several writers at once. Writers of one file wait for each other in the kernel.
func BenchmarkAppend(b *testing.B) {
	data, meta := make([]byte, 2900<<10), make([]byte, 2<<10)
	for _, c := range []struct{ writers, files int }{{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 4}} {
		b.Run(fmt.Sprintf("writers=%d/files=%d", c.writers, c.files), func(b *testing.B) {
			var files []*File
			for i := range c.files {
				f, err := Open(Target{Path: filepath.Join(b.TempDir(), fmt.Sprintf("%d.tif", i)), Label: "a.tif"})
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Start([]byte("{}")); err != nil {
					b.Fatal(err)
				}
				files = append(files, f)
			}
			defer func() {
				if err := Remove(files); err != nil {
					b.Error(err)
				}
			}()
			b.SetBytes(int64(len(data)))
			b.ResetTimer()
			var next atomic.Int64
			var g sync.WaitGroup
			for w := range c.writers {
				g.Go(func() {
					f := files[w%c.files]
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := f.append(KindBlock, uint64(n), meta, data); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			g.Wait()
		})
	}
}
