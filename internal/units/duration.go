package units

import (
	"fmt"
	"strconv"
	"time"
)

// FormatDuration returns a duration with three significant digits and a unit: "12.3 ms", "4.56 s",
// "3 min 20 s".
func FormatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + FormatDuration(-d)
	}
	digits := func(v float64, unit string) string {
		precision := 2
		switch {
		case v >= 99.95:
			precision = 0
		case v >= 9.995:
			precision = 1
		}
		return strconv.FormatFloat(v, 'f', precision, 64) + " " + unit
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < 999500*time.Nanosecond:
		return digits(float64(d)/1e3, "µs")
	case d < 999500*time.Microsecond:
		return digits(float64(d)/1e6, "ms")
	case d < 99500*time.Millisecond:
		return digits(d.Seconds(), "s")
	}
	d = d.Round(time.Second)
	h, m, sec := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if h > 0 {
		return fmt.Sprintf("%d h %02d min", h, m)
	}
	return fmt.Sprintf("%d min %02d s", m, sec)
}
