package shm

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// ParseSize reads a number of bytes as people write it: 0, 4096, 10K, 1M, 1.5GiB, 2 GB. All units
// are binary, as joblib's are, from K to P, in small letters too; parts of a byte are dropped.
// Negative numbers, and sizes beyond int64, are errors.
func ParseSize(s string) (int64, error) {
	fail := func(what string) (int64, error) {
		return 0, fmt.Errorf("size %.40q %s: write bytes, or a number with K, M, G or T, such as 500M or 1.5GiB", s,
			what)
	}
	text := strings.ToUpper(strings.TrimSpace(s))
	n := 0
	for n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n] == '.') {
		n++
	}
	number, unit := text[:n], strings.TrimLeft(text[n:], " ")
	if n > 40 {
		return fail("is no number of bytes")
	}
	shift := uint(0)
	if unit != "" && unit != "B" {
		i := strings.IndexByte("KMGTP", unit[0])
		if i < 0 || !slices.Contains([]string{"", "B", "I", "IB"}, unit[1:]) {
			return fail("has an unknown unit")
		}
		shift = 10 * uint(i+1)
	}
	// Fractions are exact: floats would give one byte less for some.
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return fail("is no number of bytes")
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), shift)))
	v := new(big.Int).Quo(r.Num(), r.Denom())
	if !v.IsInt64() {
		return fail("is larger than any memory")
	}
	return v.Int64(), nil
}
