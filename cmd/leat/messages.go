package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/terminal"
	"leat/raster"
)

// messages are the sentences that an error holds, one for each thing that is wrong.
func messages(err error) []string {
	switch e := err.(type) {
	case *apply.IncompleteError:
		return append(messages(e.Err), leftover(e, os.Args))
	case interface{ Unwrap() []error }:
		var list, texts []string
		for _, one := range e.Unwrap() {
			list, texts = append(list, messages(one)...), append(texts, one.Error())
		}
		if strings.Join(texts, "\n") == err.Error() {
			return list
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil && inner.Error() == err.Error() {
			return messages(inner)
		}
	}
	text := err.Error()
	// These are for programs; the sentence before them says the same.
	for _, sentinel := range []error{raster.ErrFormat, raster.ErrUnsupported} {
		text = strings.ReplaceAll(text, " ("+sentinel.Error()+")", "")
	}
	for _, name := range []string{"objstore: ", "stage: ", "worker: ", "subprocess: ", "slurm: ", "pbs: ", "awsbatch: ",
		"live: "} {
		text = strings.ReplaceAll(strings.TrimPrefix(text, name), ": "+name, ": ")
	}
	return []string{terminal.Text(redact(text))}
}

// tell shows people a message, which begins with "leat: ". Its further lines are indented: text of
// other programs in it can't look like a message of leat's own.
func tell(w io.Writer, message string) {
	lines := strings.Split(strings.TrimRight(message, "\n"), "\n")
	for i, line := range lines[1:] {
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			lines[1+i] = "  " + line
		}
	}
	fmt.Fprintln(w, "leat:", strings.Join(lines, "\n"))
}

// tellAll shows people all messages of an error.
func tellAll(w io.Writer, err error) {
	for _, m := range messages(err) {
		tell(w, m)
	}
}

// message is the same as one text.
func message(err error) string { return strings.Join(messages(err), "\n") }

// afterOutputs is an error that came when the outputs were whole and had their names.
type afterOutputs struct{ err error }

func (e afterOutputs) Error() string { return "the outputs are whole, but " + e.err.Error() }
func (e afterOutputs) Unwrap() error { return e.err }

// interrupted says what an interruption left.
func interrupted(err error) []string {
	if errors.As(err, new(afterOutputs)) {
		return []string{"interrupted: the outputs are whole, but the preview, trace or report is missing"}
	}
	var kept *apply.UnpublishedError
	if errors.As(err, &kept) {
		var files []string
		for name, path := range kept.Files {
			files = append(files, "output "+name+" as "+terminal.Name(path))
		}
		slices.Sort(files)
		return []string{"interrupted while outputs were written: what was finished is kept, " + strings.Join(files,
			", ") + "; files that were there are as they were"}
	}
	if left := new(apply.IncompleteError); errors.As(err, &left) {
		return []string{"interrupted: no output was finished, and files that were there are as they were",
			leftover(left, os.Args)}
	}
	return []string{"interrupted: nothing was written, and files that were there are as they were"}
}

// flagError words what the flag package finds wrong.
func flagError(err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &value):
		f := value.GetFlag()
		switch f.Value.Type() {
		case "int":
			return fmt.Errorf("%s %s: use a whole number", flagName(f), value.GetValue())
		case "bool":
			return fmt.Errorf("%s takes no value", flagName(f))
		}
	case errors.As(err, &missing):
		kind, _ := pflag.UnquoteUsage(missing.GetFlag())
		return fmt.Errorf("%s needs a value: %s", flagName(missing.GetFlag()), kind)
	}
	return err
}

// flagName is how a person writes the flag.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// cause is what went wrong with a file, without the operation and the name.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// stdoutError words an error of writing to standard output; nil stays nil.
func stdoutError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("standard output can't be written to: %w", cause(err))
}
