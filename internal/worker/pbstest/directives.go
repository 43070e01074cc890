package pbstest

import (
	"fmt"
	"maps"
	"strings"
	"unicode"
)

// qsubValues lists the options of qsub that take a value.
const qsubValues = "aAcCeJjklmMNopPqrRSuvW"

// directives adds the options on the directive lines of a script, as qsub of OpenPBS 23.06 does: it
// reads them up to the first command. Options of the command line take precedence, also for single
// resources of -l.
func directives(o map[byte]string, q *request) error {
	prefix := "#PBS"
	for _, e := range q.Env {
		if v, ok := strings.CutPrefix(e, "PBS_DPREFIX="); ok {
			prefix = v
		}
	}
	if c, ok := o['C']; ok {
		prefix = c
	}
	found := map[byte]string{}
	for line := range strings.Lines(q.Stdin) {
		line = strings.TrimSpace(line)
		text, ok := strings.CutPrefix(line, prefix)
		switch {
		case ok && prefix != "":
			args, err := words(text)
			if err != nil {
				return err
			}
			more, operands, err := getopt(args, qsubValues)
			if _, dashes := more['-']; err != nil || len(operands) > 0 || dashes {
				return fmt.Errorf("qsub: directive error: %s ", strings.Join(args, " "))
			}
			maps.Copy(found, more)
		case line != "" && line[0] != '#' && line[0] != ':':
			merge(o, found)
			return nil
		}
	}
	merge(o, found)
	return nil
}

func merge(o, found map[byte]string) {
	for c, v := range found {
		ours, ok := o[c]
		if !ok {
			o[c] = v
		} else if c == 'l' {
			o[c] = ours
			for r := range strings.SplitSeq(v, ",") {
				name, _, _ := strings.Cut(r, "=")
				if !strings.Contains(","+ours, ","+name+"=") {
					o[c] += "," + r
				}
			}
		}
	}
}

// words splits a directive line as qsub does: quotes, and backslashes outside of them.
func words(line string) (list []string, err error) {
	var word strings.Builder
	begun, quote, escaped := false, rune(0), false
	for _, c := range line {
		switch {
		case escaped:
			escaped = false
			word.WriteRune(c)
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == '\\':
			escaped, begun = true, true
		case unicode.IsSpace(c):
			if begun {
				list = append(list, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("qsub: unmatched %c", quote)
	}
	if begun {
		list = append(list, word.String())
	}
	return list, nil
}
