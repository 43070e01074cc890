package protocol

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsName reports whether s may be the name of a worker or launcher, which is used in file names and
// logs.
func IsName(s string) bool {
	if s == "" || len(s) > MaxName || s[0] == '-' || s[0] == '.' {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)) {
			return false
		}
	}
	return true
}

// IsPrintable reports whether s can be shown on a terminal unchanged.
func IsPrintable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Sanitize makes a text from a worker safe for a terminal: it keeps line breaks and tabs and
// replaces other control characters, which could change earlier output, by question marks.
func Sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}

// Truncate shortens s to at most n bytes of whole characters and marks the cut.
func Truncate(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	s = s[:max(n-len(mark), 0)]
	for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if len(s) > 0 && s[len(s)-1] >= utf8.RuneSelf { // the first byte of a character that was cut
		s = s[:len(s)-1]
	}
	return s + mark
}
