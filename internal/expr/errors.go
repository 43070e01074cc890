package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError is returned when a text is not an expression.
type SyntaxError struct {
	Pos  int    // byte offset in Text
	Msg  string // what is wrong and what to write instead
	Text string // the expression

	// Unknown is the name of a function that does not exist, and Known are the names of those that
	// do.
	Unknown string
	Known   []string
}

func (e *SyntaxError) Error() string { return render(e.Text, e.Pos, e.Msg) }

// TypeError is returned when an expression cannot be computed from the given inputs: a name is
// unknown, a band does not exist, or an integer could exceed the exact range.
type TypeError struct {
	Pos  int
	Msg  string
	Text string

	// Unknown is the name that no input has, and Known are the names of the inputs.
	Unknown string
	Known   []string
	// In is the name of the expression with this Text if another one uses it.
	In string
	// NoTime means that the times of files are needed and not known.
	NoTime bool
}

func (e *TypeError) Error() string { return render(e.Text, e.Pos, e.Msg) }

// PixelError is returned when a pixel cannot be computed or written.
type PixelError struct {
	Index  int    // of the pixel within the call of Eval
	Output int    // index of the output of Band among those of the program
	Band   int    // output band, counted from 1; 0 when a pixel of Input is the cause
	Input  string // the band read, as "name[1]", when its pixel is the cause
	Msg    string
}

func (e *PixelError) Error() string {
	if e.Band > 0 {
		return fmt.Sprintf("expression: band %d, pixel %d: %s", e.Band, e.Index, e.Msg)
	}
	return fmt.Sprintf("expression: %s, pixel %d: %s", e.Input, e.Index, e.Msg)
}

// excerpt is the number of characters that an error shows on each side of the position.
const excerpt = 36

// render returns the message with its line and column, the line of the expression, and a caret
// below it. An expression of one line has no number of the line, and a blank one has no excerpt.
func render(text string, pos int, msg string) string {
	if strings.TrimSpace(text) == "" {
		return msg
	}
	if pos > len(text) {
		pos = len(text)
	}
	where := "expression, "
	if strings.Contains(strings.TrimSpace(text), "\n") {
		where += fmt.Sprintf("line %d, ", strings.Count(text[:pos], "\n")+1)
		start := strings.LastIndexByte(text[:pos], '\n') + 1
		text, _, _ = strings.Cut(text[start:], "\n")
		pos -= start
	}
	column := utf8.RuneCountInString(text[:pos]) + 1
	before := []rune(text[max(0, pos-4*excerpt):pos])
	after := []rune(text[pos:min(len(text), pos+4*excerpt)])
	lead, trail := "", ""
	if len(before) > excerpt {
		before, lead = before[len(before)-excerpt:], "..."
	}
	if len(after) > excerpt {
		after, trail = after[:excerpt], "..."
	}
	plain := func(rs []rune) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f || r == utf8.RuneError {
				return ' '
			}
			return r
		}, string(rs))
	}
	return fmt.Sprintf("%scolumn %d: %s\n  %s%s%s%s\n  %s^", where, column, msg,
		lead, plain(before), plain(after), trail, strings.Repeat(" ", len(lead)+len(before)))
}
