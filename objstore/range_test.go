package objstore

import "testing"

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 0-9/*", "bytes */10",
		"bytes 9223372036854775807-9223372036854775807/*", "bytes 5-4/10", "bytes 0-0/0", "bytes +1-+2/+3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, last, total, err := parseContentRange(s)
		if err == nil && (first < 0 || last < first || total != -1 && total <= last || last-first+1 <= 0) {
			t.Fatalf("%q: %d-%d/%d", s, first, last, total)
		}
	})
}
