package units

import (
	"testing"
	"time"
)

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 7: "7 ns", 1500: "1.50 µs", 999_700: "1.00 ms", 12_345_678: "12.3 ms",
		999_900_000: "1.00 s", 4560 * time.Millisecond: "4.56 s", 99_700 * time.Millisecond: "1 min 40 s",
		3*time.Hour + 5*time.Minute: "3 h 05 min", -2 * time.Second: "-2.00 s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d ns: %q, expected %q", d, got, want)
		}
	}
}
