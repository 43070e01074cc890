//go:build linux

package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"leat/objstore"
)

// instant is a source of objects of 100 KiB that takes no time.
type instant struct{ data []byte }

func (s *instant) ID(name string) string { return "instant://" + name }

func (s *instant) Stat(_ context.Context, name string) (objstore.Info, error) {
	return objstore.Info{Name: name, Size: int64(len(s.data)), ETag: name}, nil
}

func (s *instant) Read(ctx context.Context, name string, _, _ int64, _ *objstore.Info) (objstore.Info, io.ReadCloser,
	error) {
	info, err := s.Stat(ctx, name)
	return info, io.NopCloser(bytes.NewReader(s.data)), err
}

// BenchmarkRead stages 200 objects at a time and reads each once.
func BenchmarkRead(b *testing.B) {
	for what, read := range map[string]func(p *Pool, l *Ref, dst []byte) ([]byte, error){
		"Bytes":  func(p *Pool, l *Ref, dst []byte) ([]byte, error) { return l.Bytes(b.Context()) },
		"Append": func(p *Pool, l *Ref, dst []byte) ([]byte, error) { return l.Append(b.Context(), dst[:0]) },
		"Recycle": func(p *Pool, l *Ref, dst []byte) ([]byte, error) {
			data, err := l.Bytes(b.Context())
			p.Recycle(data)
			return data, err
		},
	} {
		b.Run(what, func(b *testing.B) {
			src := &instant{bytes.Repeat([]byte("0123456789"), 10<<10)}
			p := pool(b, inMemory(b), Options{Workers: 32, MaxBytes: 100 << 20})
			b.ReportAllocs()
			b.SetBytes(int64(len(src.data)))
			var dst []byte
			refs := make([]*Ref, 0, 200)
			n := 0
			for b.Loop() {
				if len(refs) == 0 {
					for range cap(refs) {
						refs = append(refs, p.Prefetch(src, fmt.Sprint(n)))
						n++
					}
				}
				l := refs[0]
				refs = refs[1:]
				if len(refs) == 0 {
					refs = make([]*Ref, 0, 200)
				}
				var err error
				if dst, err = read(p, l, dst); err != nil || len(dst) != len(src.data) {
					b.Fatal(len(dst), err)
				}
				l.Release()
			}
			for _, l := range refs {
				l.Release()
			}
		})
	}
}
