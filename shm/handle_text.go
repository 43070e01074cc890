package shm

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// maxDims bounds the dimensions of a handle, as NumPy 1 does.
const maxDims = 32

// The functions below read and write the parts of handles. Each value has exactly one text: no
// leading zeros, no plus, no capital digits, nothing escaped without need.

func readUint(s string) (uint64, bool) {
	if s == "" || len(s) > 20 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

func readInt(s string) (int64, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	n, ok := readUint(digits)
	switch {
	case !ok || negative && (n == 0 || n > 1<<63) || !negative && n > math.MaxInt64:
		return 0, false
	case negative:
		return -int64(n), true // for 1<<63 too, both are the lowest
	}
	return int64(n), true
}

// readSmall parses a number of 0 to 2^31 - 1.
func readSmall(s string) (int, bool) {
	n, ok := readUint(s)
	return int(n), ok && n <= math.MaxInt32
}

func appendInts(b []byte, list []int) []byte {
	if len(list) == 0 {
		return append(b, '-')
	}
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return b
}

// readInts parses numbers separated by commas; "-" is none.
func readInts(s string) ([]int, bool) {
	if s == "-" {
		return nil, true
	}
	dims := strings.Count(s, ",") + 1
	if dims > maxDims {
		return nil, false
	}
	list := make([]int, dims)
	for i := range list {
		text, rest, _ := strings.Cut(s, ",")
		n, ok := readInt(text)
		if !ok || n < math.MinInt || n > math.MaxInt {
			return nil, false
		}
		list[i], s = int(n), rest
	}
	return list, true
}

// readID parses 32 lower-case hexadecimal digits.
func readID(id *[16]byte, s string) bool {
	if len(s) != 32 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(id[:], []byte(s))
	return err == nil
}

// bare reports whether a byte of a path is written as it is.
func bare(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/-._~", c) >= 0
}

const upperHex = "0123456789ABCDEF"

// appendPath writes every byte that is not bare as %XX.
func appendPath(b []byte, path string) []byte {
	for _, c := range []byte(path) {
		if bare(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

func readPath(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", false
			}
			hi, lo := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
			if hi < 0 || lo < 0 || bare(byte(hi<<4|lo)) {
				return "", false
			}
			c = byte(hi<<4 | lo)
			i += 2
		} else if !bare(c) {
			return "", false
		}
		b = append(b, c)
	}
	return string(b), true
}
