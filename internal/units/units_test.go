package units

import (
	"math"
	"testing"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "4096": 4096, "12B": 12, "10K": 10 << 10, " 500M ": 500 << 20, "2 GB": 2 << 30, "2g": 2 << 30,
		"1.5GiB": 3 << 29, "7kib": 7 << 10, "1Mi": 1 << 20, "1T": 1 << 40, "0.5k": 512, "1e3": 1000,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, expected %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "K", "0", "-1", "-5M", "x", "5x", "5 M M", "nan", "inf", "1e30", "2000000T", "1,5G"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d, expected an error", text, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		-5: "-5 bytes", 0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KiB", 1<<20 - 1: "1.0 MiB",
		3 << 29: "1.5 GiB", 99<<20 + 1<<19: "99.5 MiB", 150 << 20: "150 MiB", 1023 << 20: "1023 MiB",
		3 << 40: "3.0 TiB", 5 << 50: "5.0 PiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d: %q, expected %q", n, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{Count(0, "block"), "0 blocks"}, {Count(1, "block"), "1 block"}, {Count(int64(2), "block"), "2 blocks"},
		{Plural(1, "entry", "entries"), "1 entry"}, {Plural(3, "entry", "entries"), "3 entries"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, expected %q", c[0], c[1])
		}
	}
}
