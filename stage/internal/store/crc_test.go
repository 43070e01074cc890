package store

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCombineCRC32C(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	b := make([]byte, 1<<16)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	whole := crc32.Checksum(b, table)
	for range 300 {
		i := int(r.Uint64() % uint64(len(b)+1))
		j := i + int(r.Uint64()%uint64(len(b)-i+1))
		c := CombineCRC32C(crc32.Checksum(b[:i], table), crc32.Checksum(b[i:j], table), int64(j-i))
		if c = CombineCRC32C(c, crc32.Checksum(b[j:], table), int64(len(b)-j)); c != whole {
			t.Fatalf("cut at %d and %d: %08x, not %08x", i, j, c, whole)
		}
	}
	if c := CombineCRC32C(whole, 0, 0); c != whole {
		t.Errorf("nothing appended: %08x", c)
	}
	if c := CombineCRC32C(0, whole, 1<<62); c != whole {
		t.Errorf("to nothing: %08x", c)
	}
}

func TestCombineCRC32CLargeLength(t *testing.T) {
	// The checksum of n zeros is its own check for lengths that nobody can read: 2n zeros are n and
	// n.
	table := crc32.MakeTable(crc32.Castagnoli)
	one := crc32.Checksum([]byte{0}, table)
	c, n := one, int64(1)
	for n < 1<<61 {
		c, n = CombineCRC32C(c, c, n), 2*n
		if n == 1<<20 {
			if want := crc32.Checksum(make([]byte, 1<<20), table); c != want {
				t.Fatalf("1 MiB of zeros: %08x, not %08x", c, want)
			}
		}
	}
	odd := CombineCRC32C(c, one, 1) // n zeros and one
	if other := CombineCRC32C(one, c, n); other != odd {
		t.Errorf("%d zeros: %08x or %08x", n+1, odd, other)
	}
}
