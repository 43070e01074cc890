package expr

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokInt
	tokDecimal
	tokName
	tokFile // text is the name
	tokOp   // operators, brackets and the words and, or, not, in
)

type token struct {
	kind tokenKind
	pos  int
	text string
	num  float64
}

// instead lists spellings of other languages, longest first, with what to write instead.
var instead = []struct{ wrong, hint string }{
	{"&&", "write 'and'"},
	{"||", "write 'or'"},
	{"//", "write floor(a / b)"},
	{"<>", "write !="},
	{"=>", "write >="},
	{"=<", "write <="},
	{"===", "write =="},
	{"^", "write ** for a power"},
	{"{", "write [a, b] for bands"},
	{"≥", "write >="},
	{"≤", "write <="},
	{"≠", "write !="},
	{"×", "write *"},
	{"·", "write *"},
	{"÷", "write /"},
	{"−", "write -"},
	{"–", "write -"},
	{"\"", "strings are not supported"},
	{"'", "strings are not supported"},
}

var operators = []string{"**", "<<", ">>", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "<", ">", "&", "|", "~",
	"(", ")", "[", "]", ",", "?", ":", "=", ";"}

type lexer struct {
	text string
	pos  int
}

func (l *lexer) fail(pos int, format string, args ...any) error {
	return &SyntaxError{Pos: pos, Msg: fmt.Sprintf(format, args...), Text: l.text}
}

func (l *lexer) next() (token, error) {
	l.skip()
	if l.pos == len(l.text) {
		return token{kind: tokEnd, pos: l.pos}, nil
	}
	rest := l.text[l.pos:]
	c := rest[0]
	if isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]) {
		return l.number()
	}
	if r, _ := utf8.DecodeRuneInString(rest); r == '_' || unicode.IsLetter(r) {
		n := strings.IndexFunc(rest, func(r rune) bool { return !isNameRune(r) })
		if n < 0 {
			n = len(rest)
		}
		t := token{kind: tokName, pos: l.pos, text: rest[:n]}
		l.pos += n
		switch t.text {
		case "and", "or", "not", "in":
			t.kind = tokOp
		}
		return t, nil
	}
	if c == '@' {
		return l.file()
	}
	if c == '.' && l.pos > 0 {
		return token{}, l.fail(l.pos, "%s", attribute(lastName(l.text[:l.pos]), firstName(rest[1:])))
	}
	for _, w := range instead {
		if strings.HasPrefix(rest, w.wrong) {
			return token{}, l.fail(l.pos, "%s is not an operator: %s", w.wrong, w.hint)
		}
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			t := token{kind: tokOp, pos: l.pos, text: op}
			l.pos += len(op)
			return t, nil
		}
	}
	if c == '!' {
		return token{}, l.fail(l.pos, "! is not an operator: write 'not'")
	}
	r, size := utf8.DecodeRuneInString(rest)
	if r == utf8.RuneError && size <= 1 {
		return token{}, l.fail(l.pos, "invalid byte 0x%02x", c)
	}
	return token{}, l.fail(l.pos, "unexpected character %q", r)
}

// file reads the name of a file after @: up to a blank, comma, bracket or semicolon, or in quotes.
func (l *lexer) file() (token, error) {
	start, rest := l.pos, l.text[l.pos+1:]
	if strings.HasPrefix(rest, "\"") {
		name, _, ok := strings.Cut(rest[1:], "\"")
		if !ok {
			return token{}, l.fail(start, "the name of the file has no closing quote")
		}
		l.pos += 1 + len(name) + 2
		return token{kind: tokFile, pos: start, text: name}, nil
	}
	n := strings.IndexAny(rest, " \t\r\n,()[];")
	if n < 0 {
		n = len(rest)
	}
	if n == 0 {
		return token{}, l.fail(start, "the name of a file is missing after @")
	}
	l.pos += 1 + n
	return token{kind: tokFile, pos: start, text: rest[:n]}, nil
}

// skip moves past blanks, and past comments, which reach from # to the end of the line.
func (l *lexer) skip() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			l.pos++
		case c == '#':
			if n := strings.IndexByte(l.text[l.pos:], '\n'); n >= 0 {
				l.pos += n
			} else {
				l.pos = len(l.text)
			}
		default:
			return
		}
	}
}

func (l *lexer) number() (token, error) {
	s, start := l.text, l.pos
	i := start
	kind := tokInt
	if s[i] == '0' && i+1 < len(s) && (s[i+1] == 'x' || s[i+1] == 'X') {
		i += 2
		for i < len(s) && isHex(s[i]) {
			i++
		}
	} else {
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		if i < len(s) && s[i] == '.' {
			kind = tokDecimal
			for i++; i < len(s) && isDigit(s[i]); {
				i++
			}
		}
		if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
			j := i + 1
			if j < len(s) && (s[j] == '+' || s[j] == '-') {
				j++
			}
			if j < len(s) && isDigit(s[j]) {
				kind = tokDecimal
				for i = j; i < len(s) && isDigit(s[i]); {
					i++
				}
			}
		}
	}
	text := s[start:i]
	if i < len(s) {
		if r, _ := utf8.DecodeRuneInString(s[i:]); r == '.' || isNameRune(r) {
			return token{}, l.fail(i, "unexpected %q after the number %s (write * to multiply)", r, short(text))
		}
	}
	l.pos = i
	t := token{kind: kind, pos: start, text: text}
	if kind == tokDecimal {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return token{}, l.fail(start, "the number %s is beyond what float64 holds", short(text))
		}
		t.num = v
		return t, nil
	}
	base, digits := 10, text
	if len(text) > 1 && (text[1] == 'x' || text[1] == 'X') {
		base, digits = 16, text[2:]
		if digits == "" {
			return token{}, l.fail(start, "digits are missing after %s", text)
		}
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil || v > maxExact {
		return token{}, l.fail(start, "the integer %s is beyond 2^53, where float64 is no longer exact: write it with a decimal point", short(text))
	}
	t.num = float64(v)
	return t, nil
}

func short(s string) string {
	if len(s) > 24 {
		return s[:20] + "..."
	}
	return s
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isNameRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// firstName returns the name at the start of a text, "" if there is none.
func firstName(text string) string {
	if n := strings.IndexFunc(text, func(r rune) bool { return !isNameRune(r) }); n >= 0 {
		return text[:n]
	}
	return text
}

// lastName returns the name at the end of a text, "" if there is none.
func lastName(text string) string {
	return text[strings.LastIndexFunc(text, func(r rune) bool { return !isNameRune(r) })+1:]
}
