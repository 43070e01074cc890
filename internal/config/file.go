package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBytes is the size above which a file can't be a configuration.
const maxBytes = 1 << 20

// File is a configuration file. It does not change.
type File struct {
	Path    string
	entries []Entry
	names   []string // of profiles, in order
}

// Entry is a line KEY = VALUE of a file.
type Entry struct {
	Profile    string // "" for lines above the first [NAME], which hold for every profile
	Key, Value string
	Path       string
	Line       int // from 1
}

// Position returns FILE:LINE.
func (e *Entry) Position() string { return fmt.Sprintf("%s:%d", e.Path, e.Line) }

// Error is something wrong in a line. It does not repeat values, which may be secret.
type Error struct {
	Path string
	Line int
	Key  string // "" if the line has none
	Err  error
}

func (e *Error) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("%s:%d: %s: %v", e.Path, e.Line, e.Key, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Path returns the path of the configuration file: $LEAT_CONFIG, else leat/config below
// $XDG_CONFIG_HOME, else .config/leat/config below the home directory; "" without a home directory.
// named reports whether LEAT_CONFIG names it: then it must exist.
func Path(getenv func(string) string) (path string, named bool) {
	if path := getenv("LEAT_CONFIG"); path != "" {
		return path, true
	}
	// The XDG specification: a relative path is invalid and to be ignored.
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "leat", "config"), false
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "leat", "config"), false
	}
	return "", false
}

// Read reads a file. The error joins an [Error] for each wrong line; one that does not exist is
// fs.ErrNotExist.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxBytes)
	}
	return Parse(path, string(text))
}

// Parse parses the text of a file. The error joins an [Error] for each wrong line.
func Parse(path, text string) (*File, error) {
	f := &File{Path: path}
	var errs []error
	profile, lines, n := "", map[[2]string]int{}, 0
	wrong := func(key, format string, a ...any) {
		errs = append(errs, &Error{path, n, key, fmt.Errorf(format, a...)})
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case !isText(line):
			wrong("", "control characters, or not UTF-8")
			continue
		case line[0] == '[':
			name, err := profileName(line)
			if err != nil {
				wrong("", "%w", err)
				name = "" // its lines are still looked at
			} else if first, twice := lines[[2]string{name}]; twice {
				wrong("", "profile %s begins a second time, first in line %d", name, first)
			} else {
				lines[[2]string{name}] = n
				f.names = append(f.names, name)
			}
			profile = name
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || strings.ContainsFunc(key, unicode.IsSpace) {
			wrong("", "expected KEY = VALUE, [PROFILE] or a comment that begins with #")
			continue
		}
		if err := checkValue(value); err != nil {
			wrong(key, "%w", err)
			continue
		}
		if first, twice := lines[[2]string{profile, key}]; twice {
			wrong(key, "given a second time, first in line %d", first)
			continue
		}
		lines[[2]string{profile, key}] = n
		f.entries = append(f.entries, Entry{profile, key, value, path, n})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return f, nil
}

// isText reports whether a line has no control characters except tabs.
func isText(line string) bool {
	return utf8.ValidString(line) && !strings.ContainsFunc(line, func(r rune) bool {
		return r != '\t' && unicode.IsControl(r)
	})
}

// profileName returns the name in a line [NAME].
func profileName(line string) (string, error) {
	name, closed := strings.CutSuffix(line[1:], "]")
	name = strings.TrimSpace(name)
	switch {
	case !closed:
		return "", errors.New("expected [PROFILE]: no ] at the end of the line")
	case name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}):
		return "", errors.New("expected a profile's name of letters, digits and the characters -_. only")
	case strings.EqualFold(name, "default"):
		return "", errors.New("no profile can have this name: values for all profiles stand above the first one")
	}
	return name, nil
}

// checkValue refuses what another program would read in another way.
func checkValue(value string) error {
	switch quotes := `"'`; {
	case value == "":
		return errors.New("no value")
	case len(value) > 1 && value[0] == value[len(value)-1] && strings.IndexByte(quotes, value[0]) >= 0 &&
		strings.IndexByte(value[1:len(value)-1], value[0]) < 0:
		return errors.New("quotes would be part of the value: write it without them")
	case strings.Contains(value, " #") || strings.Contains(value, "\t#") || strings.Contains(value, " ;") || value[0] == '#':
		return errors.New("a comment needs a line of its own")
	}
	return nil
}

// Entries returns all lines KEY = VALUE in order.
func (f *File) Entries() []Entry { return append([]Entry(nil), f.entries...) }

// Profiles returns the names of the profiles in order.
func (f *File) Profiles() []string { return append([]string(nil), f.names...) }

// Lookup returns the line that holds for a key in a profile: the profile's own, else that of all
// profiles. Profile "" has only the latter.
func (f *File) Lookup(profile, key string) (Entry, bool) {
	var common Entry
	for _, e := range f.entries {
		if e.Key == key && e.Profile == profile {
			return e, true
		}
		if e.Key == key && e.Profile == "" {
			common = e
		}
	}
	return common, common.Line > 0
}
