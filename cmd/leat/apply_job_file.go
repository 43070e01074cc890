package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/internal/expr"
)

// maxJobFile bounds the size of a job's JSON.
const maxJobFile = 256 << 20

// notInJobs are options that a job can't have: they are about the command itself.
var notInJobs = []string{"help", "job", "events", "function-socket", "function-version", "function-closes",
	"unfinished", "discard", "json", "profile"}

// repeatedOptions are options of NAME=VALUE whose values are lists: each element is a value of its
// own. Lists of other options are joined by commas.
var repeatedOptions = []string{"input", "co", "open-option"}

// loadJob sets the options that the file of --job has.
func (f *programFlags) loadJob(cmd *cobra.Command) error {
	if f.jobFile == "" {
		return nil
	}
	fields, err := readJobFile(cmd.InOrStdin(), f.jobFile)
	if err != nil {
		return usagef("--job %s: %w", f.jobFile, err)
	}
	var errs []error
	for _, field := range fields {
		if err := setJobField(cmd.Flags(), field); err != nil {
			errs = append(errs, usageError{err})
		}
		if inputs, ok := field.value.([]jobField); ok && field.name == "input" {
			for _, in := range inputs {
				if _, ok := in.value.([]any); ok {
					f.lists[in.name] = true
				}
			}
		}
	}
	return errors.Join(errs...)
}

// jobField is a field of a job, or of an object in it, in the order of the text.
type jobField struct {
	name  string
	value any // nil, bool, string, json.Number, []any or []jobField
}

// readJobFile reads the fields of a job.
func readJobFile(stdin io.Reader, path string) ([]jobField, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, cause(err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxJobFile+1))
	if err != nil {
		return nil, cause(err)
	}
	if len(text) > maxJobFile {
		return nil, errors.New("the job is larger than 256 MiB")
	}
	if err := checkUTF8(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readJobValue(d, 0)
	if err == nil {
		if _, end := d.Token(); end != io.EOF { // More takes a closing bracket for the end
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	fields, ok := v.([]jobField)
	if !ok {
		return nil, errors.New("expected a JSON object")
	}
	return fields, nil
}

// checkUTF8 returns an error for JSON with text that is not UTF-8, or with half of a pair of
// surrogates. The decoder would replace either by U+FFFD, and so name another file.
func checkUTF8(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not a JSON object: it is not UTF-8")
	}
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); {
		size := 2
		if first := escaped(text[i:]); utf16.IsSurrogate(first) {
			if size = 12; utf16.DecodeRune(first, escaped(text[i+6:])) == unicode.ReplacementChar {
				return fmt.Errorf("not a JSON object: %s is half of a pair of surrogates", text[i:i+6])
			}
		}
		next := bytes.IndexByte(text[min(i+size, len(text)):], '\\')
		if next < 0 {
			return nil
		}
		i += size + next
	}
	return nil
}

// escaped returns the UTF-16 code that JSON begins with as \uXXXX, and -1 if it begins otherwise.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(code)
}

// readJobValue reads a value. Objects keep the order of their fields; a field that occurs twice is
// an error.
func readJobValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > 4 {
		return nil, errors.New("objects or lists are nested more than four deep")
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readJobValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Delim('{'):
		fields := []jobField{}
		seen := map[string]bool{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			if seen[name.(string)] {
				return nil, fmt.Errorf("the field %q occurs twice", name)
			}
			seen[name.(string)] = true
			v, err := readJobValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			fields = append(fields, jobField{name.(string), v})
		}
		_, err := d.Token()
		return fields, err
	}
	return t, nil
}

// setJobField sets the option that a field of a job names.
func setJobField(fl *pflag.FlagSet, field jobField) error {
	option := fl.Lookup(field.name)
	if option == nil || slices.Contains(notInJobs, field.name) {
		var known []string
		fl.VisitAll(func(g *pflag.Flag) {
			if !slices.Contains(notInJobs, g.Name) {
				known = append(known, g.Name)
			}
		})
		err := fmt.Errorf("there is no option %q", field.name)
		if hint := otherTools[field.name]; hint != "" && len(field.name) > 1 {
			return hintedError{err, hint}
		}
		return didYouMean(err, field.name, known)
	}
	if field.value == nil {
		return nil
	}
	if v, ok := field.value.(bool); ok && option.Value.Type() == "bool" {
		return fl.Set(option.Name, fmt.Sprint(v))
	}
	repeatable := option.Value.Type() == "stringArray"
	var values []string
	var err error
	switch v := field.value.(type) {
	case []jobField:
		if !repeatable {
			return fmt.Errorf("%s: expected one value, not an object", field.name)
		}
		if values, err = namedTexts(option.Name, "", v); err == nil && option.Name == "output" {
			err = checkOutputNames(v)
		}
	case []any:
		var texts []string
		if texts, err = fieldTexts(v); err == nil && repeatable {
			values = texts
		} else if err == nil {
			values, err = joinTexts(texts)
		}
	default:
		var text string
		text, err = fieldText(v)
		values = []string{text}
	}
	if err == nil && option.Value.Type() == "bool" {
		err = errors.New("expected true or false")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", field.name, err)
	}
	for _, text := range values {
		if err := fl.Set(option.Name, text); err != nil {
			if option.Value.Type() == "int" {
				err = fmt.Errorf("%q: expected a whole number", text)
			}
			return fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return nil
}

// checkOutputNames returns an error for a name that no output can have. With a slash it would be a
// part of a path, and the hint of parseOutput is for command lines.
func checkOutputNames(fields []jobField) error {
	for _, field := range fields {
		name := strings.TrimSpace(field.name)
		if name != "" && !strings.Contains(name, "=") && !expr.IsName(name) {
			return fmt.Errorf("the name %q: expected letters, digits and _, no digit first", field.name)
		}
	}
	return nil
}

// namedTexts returns the values NAME=VALUE of an object's fields. An object in it is for one input
// or output: NAME=KEY=VALUE.
func namedTexts(option, prefix string, fields []jobField) ([]string, error) {
	var all []string
	for _, field := range fields {
		if field.name == "" || strings.Contains(field.name, "=") {
			return nil, fmt.Errorf("the name %q: expected one without =", field.name)
		}
		name := prefix + field.name + "="
		switch v := field.value.(type) {
		case nil:
		case []jobField:
			texts, err := namedTexts(option, name, v)
			if err != nil {
				return nil, err
			}
			all = append(all, texts...)
		case []any:
			texts, err := fieldTexts(v)
			if err == nil && len(texts) == 0 {
				err = errors.New("expected at least one element")
			}
			if err == nil && !slices.Contains(repeatedOptions, option) {
				texts, err = joinTexts(texts)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field.name, err)
			}
			for _, text := range texts {
				all = append(all, name+text)
			}
		default:
			text, err := fieldText(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field.name, err)
			}
			all = append(all, name+text)
		}
	}
	return all, nil
}

// fieldTexts returns the elements of a list.
func fieldTexts(list []any) ([]string, error) {
	texts := make([]string, len(list))
	for i, v := range list {
		var err error
		if texts[i], err = fieldText(v); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// joinTexts joins the elements of a list by commas.
func joinTexts(texts []string) ([]string, error) {
	for _, text := range texts {
		if strings.Contains(text, ",") {
			return nil, fmt.Errorf("%q: expected an element without a comma", text)
		}
	}
	return []string{strings.Join(texts, ",")}, nil
}

// fieldText returns the text of a value.
func fieldText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	}
	return "", errors.New("expected a text or a number")
}
