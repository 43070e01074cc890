package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"leat/apply"
	"leat/internal/storeurl"
)

// namedValue is a [NAME=]VALUE of an option.
type namedValue[T any] struct {
	text  string // as typed
	name  string
	named bool // false: VALUE holds for all
	value T
}

// parseNamed reads each [NAME=]VALUE of an option, at most one for a name and one for all others.
// It leaves out those that parse refuses. The value for all others comes first, so that those for a
// name replace it.
func parseNamed[T any](option string, texts []string, parse func(string) (T, error)) ([]namedValue[T], error) {
	return parseValues(option, texts, parse, false)
}

// parseNamedLists is parseNamed for an option that adds to what it was given for the same name.
func parseNamedLists[T any](option string, texts []string, parse func(string) (T, error)) ([]namedValue[T], error) {
	return parseValues(option, texts, parse, true)
}

func parseValues[T any](option string, texts []string, parse func(string) (T, error),
	many bool) ([]namedValue[T], error) {
	var list []namedValue[T]
	var errs []error
	same := func(a, b namedValue[T]) bool { return a.named == b.named && a.name == b.name }
	for _, s := range texts {
		v := namedValue[T]{text: s}
		value := s
		if name, rest, ok := strings.Cut(s, "="); ok {
			v.name, v.named, value = name, true, rest
		}
		var err error
		if v.value, err = parse(value); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", option, s, err))
			continue
		}
		if i := slices.IndexFunc(list, func(other namedValue[T]) bool { return same(v, other) }); i >= 0 && !many {
			errs = append(errs, givenAlready(option, s, v.name, list[i].text))
			continue
		}
		list = append(list, v)
	}
	slices.SortStableFunc(list, func(a, b namedValue[T]) int {
		switch {
		case a.named == b.named:
			return 0
		case b.named:
			return -1
		}
		return 1
	})
	return list, errors.Join(errs...)
}

// givenAlready is the error for an option that was given before with the text before, for the same
// name ("" for all).
func givenAlready(option, text, name, before string) error {
	if name == "" {
		return fmt.Errorf("%s %s: it is given already, as %s: leave one of them out", option, text, before)
	}
	return fmt.Errorf("%s %s: it is given for %s already, as %s: leave one of them out", option, text, name, before)
}

// setOutputs calls set for the outputs that each value is for.
func setOutputs[T any](job *apply.Job, option string, values []namedValue[T], set func(o *apply.Output, v T)) error {
	return forOutputs(job, option, values, func(name string, v T) error {
		o := job.Outputs[name]
		set(&o, v)
		job.Outputs[name] = o
		return nil
	})
}

// forOutputs calls f with the name of each output that a value is for.
func forOutputs[T any](job *apply.Job, option string, values []namedValue[T],
	f func(name string, v T) error) error {
	var errs []error
	for _, v := range values {
		names := sortedNames(job.Outputs)
		if v.named {
			if _, known := job.Outputs[v.name]; !known {
				errs = append(errs, fmt.Errorf("%s %s: %w", option, v.text, unknownName("output", v.name, names)))
				continue
			}
			names = []string{v.name}
		}
		for _, name := range names {
			errs = append(errs, f(name, v.value))
		}
	}
	return errors.Join(errs...)
}

// setAllOutputs changes every output.
func setAllOutputs(job *apply.Job, set func(o *apply.Output)) {
	for _, n := range sortedNames(job.Outputs) {
		o := job.Outputs[n]
		set(&o)
		job.Outputs[n] = o
	}
}

func anyText(s string) (string, error) { return s, nil }

func parseList(s string) ([]string, error) { return strings.Split(s, ","), nil }

func integers(s string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func numbers(s string) ([]float64, error) {
	var list []float64
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func shorten(s string) string {
	if r := []rune(s[:min(len(s), 200)]); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}

// namedFile is a NAME=FILE.
type namedFile struct{ text, name, path string }

// cutFile reads NAME=FILE.
func cutFile(option, text, example string) (namedFile, error) {
	name, path, ok := strings.Cut(text, "=")
	if !ok || storeurl.Is(name) {
		name = ""
	}
	return newNamedFile(option, text, name, path, example)
}

// newNamedFile checks a name and a file; a file: URL becomes the path that it stands for.
func newNamedFile(option, text, name, path, example string) (namedFile, error) {
	name = strings.TrimSpace(name)
	if name == "" || path == "" {
		return namedFile{}, fmt.Errorf("%s %s: write it as %s", option, shown(text), example)
	}
	path, err := localName(path)
	if err == nil && storeurl.Is(path) {
		err = checkScheme(path)
	}
	if err != nil {
		return namedFile{}, fmt.Errorf("%s %s: %w", option, name, err)
	}
	return namedFile{text, name, path}, nil
}
