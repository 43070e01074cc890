package worker

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isName tells whether s may be a worker's name or kind, which stand in file names and logs.
func isName(s string) bool {
	if s == "" || len(s) > maxName || s[0] == '-' || s[0] == '.' {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)) {
			return false
		}
	}
	return true
}

// printable tells that s can be shown on a terminal as it is.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// shown makes what a worker sent fit for a terminal: line breaks and tabs stay, other control characters, by which a text could
// change what is on the screen already, become question marks.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}

// cut shortens s to at most n bytes, whole characters, and says so.
func cut(s string, n int) string {
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
