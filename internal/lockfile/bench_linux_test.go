package lockfile

import (
	"fmt"
	"testing"
)

func BenchmarkRanges(b *testing.B) {
	for _, live := range []int64{0, 1000, 10_000} {
		rs := openRanges(b, openTest(b), 2)
		for i := range live { // apart, so that the kernel can't join them to one
			try(b, rs[1], Read, 2*i, 1, true)
		}
		b.Run(fmt.Sprintf("Try and free among %d", live), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got, err := rs[0].Try(Write, live+1, 1)
				if !got || err != nil {
					b.Fatal(got, err)
				}
				if _, err := rs[0].Try(Free, live+1, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("Probe among %d", live), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rs[0].Probe(live+1, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
