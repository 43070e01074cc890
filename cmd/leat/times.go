package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"leat/apply"
	"leat/internal/stac"
)

// inputTimes are what --times says of an input: when its files were taken, the file that says it,
// or that it is to be found.
type inputTimes struct {
	find  bool
	list  []time.Time
	table string
}

// parseTimes reads the value of --times, without the file that it may name.
func parseTimes(text string) (t inputTimes, err error) {
	first, _, _ := strings.Cut(text, ",")
	_, wrong := stac.ParseTime(first)
	switch {
	case text == "auto":
		t.find = true
	case strings.HasPrefix(text, "@"):
		t.table = text[1:]
	case wrong != nil && !strings.Contains(text, ","):
		t.table = text
	default:
		for _, one := range strings.Split(text, ",") {
			when, err := stac.ParseTime(one)
			if err != nil {
				return t, err
			}
			t.list = append(t.list, when)
		}
	}
	if !t.find && t.list == nil && t.table == "" {
		return t, errors.New("write auto, the name of a file, or times such as 2020-01-05,2020-02-01")
	}
	return t, nil
}

// maxTimesFile bounds the size of a file of times.
const maxTimesFile = 16 << 20

// readTimes reads a file with a time in each line. Empty lines and those that begin with # do not
// count.
func readTimes(path string) ([]time.Time, error) {
	text, err := readText(path, maxTimesFile)
	if err != nil {
		return nil, fileError{fmt.Errorf("--times %s: %w", shown(path), cause(err))}
	}
	var list []time.Time
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		t, err := stac.ParseTime(line)
		if err != nil {
			return nil, fmt.Errorf("--times %s, line %d: %w", shown(path), i+1, err)
		}
		list = append(list, t)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--times %s: the file has no times", shown(path))
	}
	return list, nil
}

// setTimes gives the inputs their times. A value without a name is for all lists.
func (f *inputFlags) setTimes(ctx context.Context, job *apply.Job) error {
	var errs []error
	var values []namedValue[inputTimes]
	for _, v := range f.times {
		if path := v.value.table; path != "" {
			var err error
			v.value.list, err = interruptible(ctx, func() ([]time.Time, error) { return readTimes(path) })
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if v.named {
			values = append(values, v)
			continue
		}
		for _, name := range sortedNames(job.Inputs) {
			if job.Inputs[name].List {
				values = append(values, namedValue[inputTimes]{name: name, named: true, text: v.text, value: v.value})
			}
		}
	}
	for _, v := range values {
		if _, vector := job.Vectors[v.name]; vector {
			errs = append(errs, fmt.Errorf("--times %s: %s is an input of vectors, which has no times", v.text, v.name))
		}
	}
	return errors.Join(append(errs, setInputs(job, "--times", values, func(in *apply.Input, v inputTimes) {
		in.Times, in.FindTimes = v.list, v.find
	}))...)
}
