//go:build unix

package namespace

import (
	"fmt"
	"testing"
)

// BenchmarkJoin registers and leaves, one process alone, with other jobs alive in the same process.
func BenchmarkJoin(b *testing.B) {
	for _, live := range []int{0, 10, 100, 1000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			ownRoot(b)
			base := b.TempDir()
			for i := range live {
				n, err := Join(b.Context(),
					Spec{Key: fmt.Sprint("live", i), Dirs: []Dir{{fmt.Sprint(base, "/live", i), "s3://bucket"}}})
				if err != nil {
					b.Fatal(err)
				}
				defer n.Close()
			}
			b.ReportAllocs()
			for b.Loop() {
				n, err := Join(b.Context(), Spec{Key: "job", Dirs: []Dir{{base + "/job", "s3://bucket"}}})
				if err != nil {
					b.Fatal(err)
				}
				if err := n.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMutex locks and unlocks what nobody else wants.
func BenchmarkMutex(b *testing.B) {
	ownRoot(b)
	n, err := Join(b.Context(), Spec{Key: "job"})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	m, err := n.Mutex("m")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		unlock, err := m.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := unlock(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDied is what each look of one who waits at a barrier costs, with eight members.
func BenchmarkDied(b *testing.B) {
	ownRoot(b)
	var first *Namespace
	for i := range 8 {
		n, err := Join(b.Context(), Spec{Key: "job", Ranks: rank(i, 8)})
		if err != nil {
			b.Fatal(err)
		}
		defer n.Close()
		if i == 0 {
			first = n
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := first.died(); err != nil {
			b.Fatal(err)
		}
	}
}
