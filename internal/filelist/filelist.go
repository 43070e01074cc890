// Package filelist reads lists of files: text files with a name on each line, and patterns of
// names. [Parse] returns the names of a text, [Compare] orders names as people do, and [Prefix]
// splits a pattern for a store, which lists objects by the beginning of their names.
package filelist

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"leat/internal/storeurl"
	"leat/internal/units"
)

const (
	// MaxFiles is the maximum number of files of a list or a pattern. A file takes some kilobytes
	// of a run, and an expression over a list one operation or more.
	MaxFiles = 100_000
	// MaxBytes is the maximum size of a list: 100,000 names of 600 bytes.
	MaxBytes = 64 << 20
	// maxName is the maximum length of a name in bytes: paths of Linux have 4096 at most, signed
	// URLs about 2000.
	maxName = 16 << 10
)

// Parse returns the files that a list names, one on each line. Blank lines and those that begin
// with # are skipped. A relative path is relative to the place of the list, which is a path or a
// URL. Errors name the line.
func Parse(list string, text []byte) ([]string, error) {
	var files []string
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	line := 0
	for raw := range bytes.Lines(text) {
		line++
		bad := func(format string, args ...any) ([]string, error) {
			return nil, fmt.Errorf("%s:%d: "+format, append([]any{storeurl.Redact(list), line}, args...)...)
		}
		name := string(bytes.TrimSpace(raw))
		switch {
		case name == "" || name[0] == '#':
			continue
		case len(name) > maxName:
			return bad("a line of %s, expected the name of a file", units.FormatSize(int64(len(name))))
		case !utf8.ValidString(name) && storeurl.Is(name), strings.ContainsRune(name, 0):
			return bad("no text, expected the name of a file")
		case len(files) == MaxFiles:
			return bad("more than %d files", MaxFiles)
		}
		file, err := Resolve(list, name)
		if err != nil {
			return bad("%w", err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: the list names no file, expected one on each line", storeurl.Redact(list))
	}
	return files, nil
}

// Resolve returns the file that a name in a text refers to: a path or a URL, which may be relative
// to that of the text.
func Resolve(text, name string) (string, error) {
	switch {
	case storeurl.Is(name):
		return name, nil
	case !storeurl.Is(text):
		if filepath.IsAbs(name) {
			return name, nil
		}
		return filepath.Join(filepath.Dir(text), name), nil
	case strings.HasPrefix(name, "/"):
		return "", fmt.Errorf("%s is the path of a file, expected a URL or a relative name in a list that is in a store", name)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "?")
	bucket, object, _ := strings.Cut(rest, "/")
	to := path.Join(path.Dir(object), name)
	if to == ".." || strings.HasPrefix(to, "../") {
		return "", fmt.Errorf("%s lies above the store of the list", name)
	}
	return scheme + "://" + bucket + "/" + to, nil
}

// Compare orders names naturally: runs of digits compare as numbers, other characters as bytes.
// Names that differ in leading zeros alone are ordered as texts.
func Compare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		if !digit(x[0]) || !digit(y[0]) {
			if x[0] != y[0] {
				return int(x[0]) - int(y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		m, n := number(x), number(y)
		p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if len(p) != len(q) {
			return len(p) - len(q)
		}
		if c := strings.Compare(p, q); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(a, b)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number returns the length of the digits with which s begins.
func number(s string) int {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return n
}

// IsPattern reports whether a name has characters that stand for others.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Prefix returns the part of a pattern before the first character that stands for others.
func Prefix(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// Sort sorts names in natural order.
func Sort(names []string) { slices.SortFunc(names, Compare) }
