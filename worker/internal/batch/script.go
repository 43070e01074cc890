package batch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"leat/worker"
)

// Script is the user's part of a job script.
type Script struct {
	Directives           []string // options of the batch system, one or more per line
	Init, Prefix, Suffix []string
}

// Validate returns an error that names all lines that would break the script, and all words of
// directives that are refused. refused returns the reason, or "" for an allowed word.
func (s *Script) Validate(refused func(word string) string) error {
	var errs []error
	for _, p := range []struct {
		name, never string
		texts       []string
	}{
		{"Directives", "\x00\r\n", s.Directives}, {"Init", "\x00", s.Init},
		{"Prefix", "\x00\r\n", s.Prefix}, {"Suffix", "\x00\r\n", s.Suffix},
	} {
		for _, t := range p.texts {
			if strings.ContainsAny(t, p.never) {
				errs = append(errs, fmt.Errorf("option %s has %q, expected none of %q", p.name, t, p.never))
			}
		}
	}
	for _, d := range s.Directives {
		for w := range strings.FieldsSeq(d) {
			if why := refused(w); why != "" {
				errs = append(errs, fmt.Errorf("option Directives has %s, which is refused: %s", w, why))
			}
		}
	}
	return errors.Join(errs...)
}

// Lines returns the script that runs a worker's command: the directives, each behind the system's
// prefix, then setup, the user's initial commands, and the command.
func (s *Script) Lines(shell, directive string, setup, command []string) []string {
	lines := []string{"#!" + shell}
	for _, d := range s.Directives {
		lines = append(lines, directive+" "+d)
	}
	lines = append(append(lines, setup...), s.Init...)
	words := append([]string(nil), s.Prefix...)
	for _, w := range command {
		words = append(words, Quote(w))
	}
	return append(lines, strings.Join(append(words, s.Suffix...), " "))
}

// Quote quotes a word for the shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ValidateStart returns an error that names all invalid options of a start of remote workers.
func ValidateStart(o *worker.StartOptions) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("option "+format, a...)) }
	if o.Workers < 1 {
		bad("Workers is %d, expected 1 or more", o.Workers)
	}
	if o.First < 0 {
		bad("First is %d, expected 0 or more", o.First)
	}
	if o.RunID == "" || strings.Trim(o.RunID, runIDBytes) != "" {
		bad("RunID is %q, expected letters, digits and dashes", o.RunID)
	}
	if len(o.Command) == 0 || !filepath.IsAbs(o.Command[0]) || strings.Contains(strings.Join(o.Command, ""), "\x00") {
		bad("Command is %q, expected the absolute path of a program and arguments without zero bytes", o.Command)
	}
	if len(o.Endpoint.Addresses) == 0 {
		bad("Endpoint is empty")
	}
	return errors.Join(errs...)
}

const runIDBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// WriteSecret writes the endpoint's text to a new file of mode 0600 in a directory and returns its
// path. Each start has its own file, since a run may have several.
func WriteSecret(dir, kind string, text []byte) (path string, err error) {
	f, err := os.CreateTemp(dir, kind+"-*.endpoint")
	if err != nil {
		return "", fmt.Errorf("writing secret: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing secret: %w", errors.Join(err, RemoveSecret(f.Name())))
	}
	return f.Name(), nil
}

// RemoveSecret removes a file that WriteSecret has written. It does nothing if path is "".
func RemoveSecret(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing secret: %w", err)
	}
	return nil
}
