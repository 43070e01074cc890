package main

import (
	"errors"
	"fmt"
	"strings"
)

// shellWords cuts a text into words as a shell does, with quotes and backslashes, but without
// variables and patterns.
func shellWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, rune(0)
	escaped := false
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteRune(c)
			in = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a %c is not closed", quote)
	case escaped:
		return nil, errors.New("there is nothing behind the last backslash")
	case in:
		words = append(words, word.String())
	}
	return words, nil
}
