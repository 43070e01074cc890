package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/apply/outcome"
	"leat/internal/terminal"
)

// message is what an error says to the user: what is wrong, and what to do about it ("" if nothing
// is known).
type message struct{ text, hint string }

// messages returns the messages of all errors that err joins.
func messages(err error) []message {
	switch e := err.(type) {
	case *outcome.IncompleteError:
		return append(messages(e.Err), incompleteMessage(e, os.Args))
	case *outcome.BlockError:
		// The traceback of a function in Python shows the line that failed. Stacks of Go help only
		// leat's developers.
		if len(e.Stack) > 0 && !errors.As(err, new(*outcome.PanicError)) {
			text := e.Error() + "\n" + strings.TrimRight(string(e.Stack), "\n")
			return []message{{terminal.Text(redact(text)), withLeftHint(hintOf(err), err)}}
		}
	case interface{ Unwrap() []error }:
		var list []message
		var texts []string
		for _, one := range e.Unwrap() {
			list, texts = append(list, messages(one)...), append(texts, one.Error())
		}
		if strings.Join(texts, "\n") == err.Error() {
			return list
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil && inner.Error() == err.Error() {
			list := messages(inner)
			if own, ok := err.(hintedError); ok && len(list) == 1 {
				list[0].hint = own.hint // of the command, which knows more
			}
			for i := range list {
				if list[i].hint == "" {
					list[i].hint = ownHint(err)
				}
			}
			return list
		}
	}
	return []message{{terminal.Text(redact(err.Error())), withLeftHint(hintOf(err), err)}}
}

// printLine writes a prefix and a text. Further lines of the text are indented, so that the output
// of another program in it can't look like a message of leat.
func printLine(w io.Writer, prefix, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines[1:] {
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			lines[1+i] = "  " + line
		}
	}
	fmt.Fprintln(w, prefix, strings.Join(lines, "\n"))
}

// printMessages writes messages, and each hint once, after the last message in a row that has it.
func printMessages(w io.Writer, prefix string, list []message) {
	for i, m := range list {
		printLine(w, prefix, m.text)
		if m.hint != "" && (i+1 == len(list) || list[i+1].hint != m.hint) {
			printLine(w, hintPrefix, m.hint)
		}
	}
}

// Prefixes of what leat writes to standard error.
const (
	errorPrefix   = "leat:"
	warningPrefix = "leat: warning:"
	notePrefix    = "note:"
	hintPrefix    = "hint:"
)

// noteTexts returns the texts of notes, never nil.
func noteTexts(lists ...[]outcome.Note) []string {
	texts := []string{}
	for _, n := range slices.Concat(lists...) {
		texts = append(texts, n.Text)
	}
	return texts
}

// noteMessages returns the messages of notes, whose texts get a prefix.
func noteMessages(prefix string, notes []outcome.Note) []message {
	var list []message
	for _, n := range notes {
		list = append(list, message{terminal.Text(prefix + n.Text), fieldHint(n.Field, n.Value)})
	}
	return list
}

// printNotes writes notes, each followed by its hint, if there is one.
func printNotes(w io.Writer, lists ...[]outcome.Note) error {
	for _, n := range slices.Concat(lists...) {
		if _, err := fmt.Fprintln(w, n.Text); err != nil {
			return err
		}
		if hint := fieldHint(n.Field, n.Value); hint != "" {
			if _, err := fmt.Fprintln(w, "hint:", hint); err != nil {
				return err
			}
		}
	}
	return nil
}

// printError writes all messages of an error.
func printError(w io.Writer, err error) { printMessages(w, errorPrefix, messages(err)) }

// printWarning writes all messages of an error that does not end the command.
func printWarning(w io.Writer, err error) { printMessages(w, warningPrefix, messages(err)) }

// errorText returns the messages of an error as one text, without hints.
func errorText(err error) string {
	var texts []string
	for _, m := range messages(err) {
		texts = append(texts, m.text)
	}
	return strings.Join(texts, "\n")
}

// hintText returns the hints of an error as one text.
func hintText(err error) string {
	var hints []string
	for _, m := range messages(err) {
		if m.hint != "" && !slices.Contains(hints, m.hint) {
			hints = append(hints, m.hint)
		}
	}
	return strings.Join(hints, "\n")
}

// afterOutputs is an error that came when the outputs were whole and had their names.
type afterOutputs struct{ err error }

func (e afterOutputs) Error() string { return "the outputs are whole, but " + e.err.Error() }
func (e afterOutputs) Unwrap() error { return e.err }

// interrupted returns messages about what an interrupted run left.
func interrupted(err error) []message {
	if errors.As(err, new(afterOutputs)) {
		return []message{{text: "interrupted: the outputs are whole, but the preview, trace or report is missing"}}
	}
	var kept *outcome.UnpublishedError
	if errors.As(err, &kept) {
		var files []string
		for name, path := range kept.Files {
			files = append(files, "output "+name+" as "+terminal.Name(path))
		}
		slices.Sort(files)
		return []message{{text: "interrupted while outputs were written: what was finished is kept, " +
			strings.Join(files, ", ") + "; files that were there are as they were"}}
	}
	if left := new(outcome.IncompleteError); errors.As(err, &left) {
		return []message{{text: "interrupted: no output was finished, and files that were there are as they were"},
			incompleteMessage(left, os.Args)}
	}
	return []message{{text: "interrupted: nothing was written, and files that were there are as they were"}}
}

// flagError words what the flag package finds wrong with options of a command. args are those of
// the process.
func flagError(c *cobra.Command, err error, args []string) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &unknown):
		return unknownOption(c, unknown, args)
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
