//go:build unix

package lockfile

import (
	"fmt"
	"strconv"
	"testing"
)

func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{0, 4096, 100 << 10} {
		for _, way := range ways {
			b.Run(fmt.Sprintf("%d bytes %s", size, way), func(b *testing.B) {
				d := openTest(b)
				setWay(way, func(string) {})
				defer setWay("", func(string) {})
				fill := text(string(make([]byte, size)))
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					h, err := d.Publish("a", 0o600, fill)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := h.RemoveIfLast(nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkShare(b *testing.B) {
	d := openTest(b)
	leave(b, d, "a", "x")
	b.Run("and release", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := d.LockShared("a", false)
			if err != nil {
				b.Fatal(err)
			}
			if err := h.Release(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("map and close", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := d.LockShared("a", false)
			if err != nil {
				b.Fatal(err)
			}
			m, err := h.Map(1, false)
			if err != nil {
				b.Fatal(err)
			}
			if err := m.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkJoin(b *testing.B) {
	d := openTest(b)
	leave(b, d, "a", "x")
	b.ReportAllocs()
	for b.Loop() {
		h, created, err := d.LockOrPublish("a", 0o600, nil)
		if created || err != nil {
			b.Fatal(created, err)
		}
		if err := h.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSweep(b *testing.B) {
	d := openTest(b)
	for i := range 100 {
		ok(d.Publish(strconv.Itoa(i), 0o600, nil))(b)
	}
	b.Run("held", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if gone, err := d.Sweep("50"); gone || err != nil {
				b.Fatal(gone, err)
			}
		}
	})
	b.Run("8 of 100 held", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if gone, err := d.SweepSome(8); gone > 0 || err != nil {
				b.Fatal(gone, err)
			}
		}
	})
}
