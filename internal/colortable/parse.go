package colortable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"leat/raster"
)

// LineError is an error in one line of a text.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// named are the colours that gdaldem knows by name, with its values.
var named = map[string]raster.RGBA{
	"white": {R: 255, G: 255, B: 255, A: 255}, "black": {A: 255}, "red": {R: 255, A: 255}, "green": {G: 255, A: 255},
	"blue": {B: 255, A: 255}, "yellow": {R: 255, G: 255, A: 255}, "magenta": {R: 255, B: 255, A: 255},
	"cyan": {G: 255, B: 255, A: 255}, "aqua": {G: 191, B: 191, A: 255}, "grey": {R: 191, G: 191, B: 191, A: 255},
	"gray": {R: 191, G: 191, B: 191, A: 255}, "orange": {R: 255, G: 127, A: 255}, "brown": {R: 191, G: 127, B: 63, A: 255},
	"purple": {R: 127, B: 255, A: 255}, "violet": {R: 127, B: 255, A: 255}, "indigo": {G: 127, B: 255, A: 255},
}

// modes are the words after INTERPOLATION: in files of QGIS.
var modes = map[string]Mode{"EXACT": Exact, "DISCRETE": Discrete, "INTERPOLATED": Linear}

// maxLine bounds the length of a line.
const maxLine = 1 << 16

// Parse reads a colour table. A line is a value, red, green, blue, and optionally alpha and then a
// name, all separated by blanks, tabs, commas or colons; or a value, the name of a colour and
// optionally alpha. The value is a number, a percentage, nv (the nodata value) or default (all
// others). # begins a comment. A line INTERPOLATION:WORD, as QGIS writes it, selects the mode;
// without it percentages mean Relief. An error in a line is a [*LineError].
func Parse(r io.Reader) (*Table, error) {
	p := parser{seen: map[Entry]int{}}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), maxLine)
	line := 1
	for ; sc.Scan(); line++ {
		text := sc.Text()
		if line == 1 {
			text = strings.TrimPrefix(text, "\uFEFF")
		}
		if err := p.line(line, text); err != nil {
			return nil, &LineError{line, err}
		}
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &LineError{line, fmt.Errorf("longer than %d bytes", maxLine)}
	} else if err != nil {
		return nil, err
	}
	return p.finish()
}

type parser struct {
	t       Table
	seen    map[Entry]int // line by value
	modeSet int           // line that sets the mode, or 0
	qgis    bool
}

// separator reports whether a character separates columns.
func separator(r rune) bool { return strings.ContainsRune(" \t,:\r", r) }

// column cuts the first column off a line.
func column(s string) (first, rest string) {
	s = strings.TrimLeftFunc(s, separator)
	i := strings.IndexFunc(s, separator)
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

func (p *parser) line(n int, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return errors.New("not a text in UTF-8")
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "#") {
		p.qgis = p.qgis || strings.Contains(text, "QGIS")
		return nil
	}
	if !p.qgis { // in its files, # may be part of a name
		for i := range text {
			if text[i] == '#' && separator(rune(text[i-1])) {
				text = text[:i]
				break
			}
		}
	}
	key, rest := column(text)
	if key == "" {
		return nil
	}
	if strings.EqualFold(key, "INTERPOLATION") {
		return p.mode(n, rest)
	}
	c, label, err := color(rest)
	if err != nil {
		return err
	}
	switch {
	case strings.EqualFold(key, "nv"):
		if p.t.Nodata != nil {
			return errors.New("nv has a colour already")
		}
		p.t.Nodata, p.t.NodataLabel = &c, label
		return nil
	case strings.EqualFold(key, "default"):
		if p.t.Default != nil {
			return errors.New("default has a colour already")
		}
		p.t.Default = &c
		return nil
	}
	e := Entry{Color: c, Label: label, line: n}
	number, percent := strings.CutSuffix(key, "%")
	if e.Value, err = strconv.ParseFloat(number, 64); err != nil || math.IsNaN(e.Value) {
		return fmt.Errorf("%q is not a value: expected a number, a percentage, nv or default", key)
	}
	if v, err := strconv.ParseFloat(label, 64); err == nil && v == e.Value {
		e.Label = "" // QGIS writes it where there is no name
	}
	if e.Percent = percent; percent && (e.Value < 0 || e.Value > 100) {
		return fmt.Errorf("%s: expected 0%% to 100%%", key)
	}
	same := Entry{Value: e.Value + 0, Percent: percent} // no negative zero
	if old := p.seen[same]; old > 0 {
		return fmt.Errorf("%s has a colour already, in line %d", key, old)
	}
	p.seen[same] = n
	p.t.Entries = append(p.t.Entries, e)
	return nil
}

// mode reads what follows INTERPOLATION.
func (p *parser) mode(n int, rest string) error {
	word, _ := column(rest)
	m, ok := modes[strings.ToUpper(word)]
	if !ok {
		return fmt.Errorf("interpolation %q: expected EXACT, DISCRETE or INTERPOLATED", word)
	}
	if p.modeSet > 0 {
		return fmt.Errorf("the interpolation is given in line %d already", p.modeSet)
	}
	p.t.Mode, p.modeSet, p.qgis = m, n, true
	return nil
}

// color reads the columns after the value.
func color(rest string) (c raster.RGBA, label string, err error) {
	const want = "expected value red green blue, optionally alpha and a name"
	word, after := column(rest)
	if word == "" {
		return c, "", errors.New("no colour: " + want)
	}
	if _, bad := strconv.ParseFloat(word, 64); bad != nil {
		c, ok := named[strings.ToLower(word)]
		if !ok {
			return c, "", fmt.Errorf("unknown colour %q: %s", word, want)
		}
		return withAlpha(c, after)
	}
	for i, to := range []*uint8{&c.R, &c.G, &c.B} {
		if i > 0 {
			word, after = column(after)
		}
		if word == "" {
			return c, "", fmt.Errorf("%s missing: %s", [...]string{"red", "green", "blue"}[i], want)
		}
		if *to, err = channel(word); err != nil {
			return c, "", fmt.Errorf("%s %w", [...]string{"red", "green", "blue"}[i], err)
		}
	}
	c.A = 255
	return withAlpha(c, after)
}

// withAlpha reads alpha and name.
func withAlpha(c raster.RGBA, rest string) (_ raster.RGBA, label string, err error) {
	word, after := column(rest)
	if word == "" {
		return c, "", nil
	}
	if c.A, err = channel(word); err != nil {
		return c, "", fmt.Errorf("alpha %w", err)
	}
	// A comma or the like separates the name; what follows is part of it.
	after = strings.TrimSpace(after)
	if after != "" && separator(rune(after[0])) {
		after = after[1:]
	}
	return c, strings.TrimSpace(after), nil
}

func channel(word string) (uint8, error) {
	v, err := strconv.ParseUint(word, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%q: expected a whole number from 0 to 255", word)
	}
	return uint8(v), nil
}

// finish checks the table as a whole.
func (p *parser) finish() (*Table, error) {
	t := &p.t
	if len(t.Entries) == 0 {
		return nil, ErrEmpty
	}
	percent := t.NeedsRange()
	if percent && p.modeSet == 0 {
		t.Mode = Relief
	}
	for _, e := range t.Entries {
		var err error
		switch {
		case t.Mode == Exact && e.Percent:
			err = fmt.Errorf("%g%%: percentages need interpolation", e.Value)
		case t.Mode == Exact && e.Value != math.Trunc(e.Value):
			err = fmt.Errorf("value %g: a palette has whole numbers", e.Value)
		case t.Mode == Exact && (e.Value < 0 || e.Value > MaxValue):
			err = fmt.Errorf("value %g: a palette has the values 0 to %d", e.Value, MaxValue)
		case math.IsInf(e.Value, 0) && (t.Mode != Discrete || e.Value < 0):
			err = fmt.Errorf("value %g: nothing can be interpolated to it", e.Value)
		}
		if err != nil {
			return nil, &LineError{e.line, err}
		}
	}
	if t.Mode != Exact && t.Default != nil {
		return nil, errors.New("default has no use: the entries give every value a colour")
	}
	return t, nil
}
