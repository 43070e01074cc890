// Package units reads and writes sizes, counts and durations as people do: "1.5 GiB", "3 blocks",
// "12.3 ms".
package units

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const binary = "KMGTPE" // prefixes of 1024, 1024^2, ...

// ParseSize reads a positive number of bytes with an optional binary unit: 4096, 500M, 1.5GiB,
// 2 GB. K, M, G and T count in steps of 1024.
func ParseSize(s string) (int64, error) {
	number := strings.TrimRight(strings.ToUpper(strings.TrimSpace(s)), "IB")
	factor := 1.0
	if n := len(number); n > 0 {
		if i := strings.IndexByte(binary[:4], number[n-1]); i >= 0 {
			factor = math.Pow(1024, float64(i+1))
			number = number[:n-1]
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v > 0) || v*factor > 1<<60 {
		return 0, errors.New("write a size such as 500M or 2G")
	}
	return int64(v * factor), nil
}

// FormatSize returns a number of bytes in its largest binary unit: "1 byte", "1023 bytes",
// "1.5 GiB", "150 MiB".
func FormatSize(n int64) string {
	if n < 1024 {
		return Count(n, "byte")
	}
	v, unit := float64(n), -1
	for v >= 1023.5 && unit < len(binary)-1 {
		v /= 1024
		unit++
	}
	digits := 0
	if v < 100 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, v, binary[unit])
}

// Count returns a number of things whose plural ends in s: "1 block", "3 blocks".
func Count[N int | int32 | int64 | uint64](n N, noun string) string { return Plural(n, noun, noun+"s") }

// Plural returns n followed by one if n is 1, else by many: "1 entry", "3 entries".
func Plural[N int | int32 | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
