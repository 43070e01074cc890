//go:build linux

package store

import (
	"fmt"
	"path/filepath"
	"testing"
)

// benchOn runs a benchmark in memory and on the disk of the temporary directory.
func benchOn(b *testing.B, f func(b *testing.B, s *Store)) {
	for where, dir := range map[string]string{"memory": inMemory(b), "disk": b.TempDir()} {
		b.Run(where, func(b *testing.B) {
			s, err := openAt(filepath.Join(dir, "stage"), func() (uint64, error) { return numbers.Add(1), nil })
			must(b, err)
			b.ReportAllocs()
			f(b, s)
			must(b, s.Close())
		})
	}
}

// BenchmarkStore writes and publishes objects. A few hundred are freed at a time, outside of the
// measured time.
func BenchmarkStore(b *testing.B) {
	for _, size := range []int64{100 << 10, 8 << 20} {
		for _, how := range []string{"packed", "file"} {
			if how == "packed" && size >= PackBelow {
				continue
			}
			b.Run(fmt.Sprintf("%s/%dKiB", how, size>>10), func(b *testing.B) {
				benchOn(b, func(b *testing.B, s *Store) {
					content := object(1, size)
					b.SetBytes(size)
					var all []Place
					for b.Loop() {
						create := s.Create
						if how == "file" {
							create = s.CreateFile
						}
						d, err := create(size, "")
						must(b, err)
						if _, err := d.WriteAt(content, 0); err != nil {
							b.Fatal(err)
						}
						must(b, d.Commit(size))
						must(b, d.Close())
						if all = append(all, d.Place()); int64(len(all))*size > 128<<20 {
							b.StopTimer()
							for _, p := range all {
								must(b, s.Free(p, size))
							}
							all = all[:0]
							b.StartTimer()
						}
					}
					for _, p := range all {
						must(b, s.Free(p, size))
					}
				})
			})
		}
	}
}

func BenchmarkFree(b *testing.B) {
	for _, how := range []string{"packed", "file"} {
		b.Run(how+"/100KiB", func(b *testing.B) {
			const size = 100 << 10
			benchOn(b, func(b *testing.B, s *Store) {
				content := object(1, size)
				var all []Place
				for b.Loop() {
					if len(all) == 0 {
						b.StopTimer()
						for range 500 {
							create := s.Create
							if how == "file" {
								create = s.CreateFile
							}
							d, err := create(size, "")
							must(b, err)
							if _, err := d.WriteAt(content, 0); err != nil {
								b.Fatal(err)
							}
							must(b, d.Commit(size))
							must(b, d.Close())
							all = append(all, d.Place())
						}
						b.StartTimer()
					}
					must(b, s.Free(all[len(all)-1], size))
					all = all[:len(all)-1]
				}
				for _, p := range all {
					must(b, s.Free(p, size))
				}
			})
		})
	}
}

func BenchmarkReadAt(b *testing.B) {
	const size = 100 << 10
	benchOn(b, func(b *testing.B, s *Store) {
		p := kept(b, s, object(1, size), "")
		buf := make([]byte, size)
		b.SetBytes(size)
		for b.Loop() {
			if _, err := s.ReadAt(p, buf, 0); err != nil {
				b.Fatal(err)
			}
		}
		must(b, s.Free(p, size))
	})
}

func BenchmarkCombineCRC32C(b *testing.B) {
	for b.Loop() {
		CombineCRC32C(1, 2, 16<<20)
	}
}
