// Package terminal makes text from elsewhere safe to show on a terminal: names of objects, files
// and jobs, and error messages of other programs. Such text may hold escape sequences, which move
// the cursor, retitle the window or make the terminal type something, or newlines and bidirectional
// controls, which make one line look like another.
//
// [Name] is for a name within a line, [Text] for a message of one or more lines.
package terminal

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns a name as it can be shown within a line. A name with a character that a terminal
// acts on, with invalid UTF-8, or with a quotation mark at its start is quoted as a Go string,
// which shows all its bytes; any other name is unchanged.
func Name(name string) string {
	if strings.HasPrefix(name, `"`) || unsafeAt(name, false) < len(name) {
		return strconv.Quote(name)
	}
	return name
}

// Text returns a message whose only control characters are newlines and tabs: any other character
// that a terminal acts on, and every byte of invalid UTF-8, becomes an escape such as \x1b.
func Text(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	i := unsafeAt(text, true)
	if i == len(text) {
		return text
	}
	var b strings.Builder
	for i < len(text) {
		b.WriteString(text[:i])
		_, n := utf8.DecodeRuneInString(text[i:])
		escaped := strconv.QuoteToASCII(text[i : i+n])
		b.WriteString(escaped[1 : len(escaped)-1])
		text = text[i+n:]
		i = unsafeAt(text, true)
	}
	b.WriteString(text)
	return b.String()
}

// unsafeAt returns the index of the first character that a terminal acts on, len(s) where there is
// none.
func unsafeAt(s string, lines bool) int {
	for i, r := range s {
		if lines && (r == '\n' || r == '\t') {
			continue
		}
		if acts(r) {
			if r == utf8.RuneError {
				if _, n := utf8.DecodeRuneInString(s[i:]); n > 1 { // U+FFFD itself
					continue
				}
			}
			return i
		}
	}
	return len(s)
}

// acts reports whether a terminal may act on a character rather than show it: control characters,
// separators of lines, invisible formatting such as the bidirectional controls, and what stands for
// invalid UTF-8. The joiners of emoji and of several scripts are none of them.
func acts(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	switch r {
	case zeroWidthNonJoiner, zeroWidthJoiner:
		return false
	case utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
