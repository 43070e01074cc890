package storeurl

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Is reports whether s is a URL of a store rather than the path of a local file.
func Is(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return false
	}
	for i, c := range scheme {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
			(i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return true
}

// Printable returns name with control characters escaped.
func Printable(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) {
		name = strings.Trim(strconv.Quote(name), `"`)
	}
	return name
}

// hashed returns a short hash that stands for a secret text.
func hashed(s string) string { return fmt.Sprintf("~%.8x", sha256.Sum256([]byte(s))) }
