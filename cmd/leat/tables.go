package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"leat/apply"
	"leat/internal/expr"
	"leat/internal/storeurl"
)

// maxTable bounds the size of a table's text.
const maxTable = 64 << 20

// addTables reads the tables of the job's expressions.
func addTables(ctx context.Context, job *apply.Job) error {
	var errs []error
	texts := slices.Concat(slices.Collect(maps.Values(job.Expressions)), slices.Collect(maps.Values(job.Variables)))
	slices.Sort(texts)
	for _, text := range texts {
		e, err := expr.Parse(text)
		if err != nil {
			continue // apply reports it
		}
		for _, path := range e.Tables() {
			if _, again := job.Tables[path]; again {
				continue
			}
			if storeurl.Is(path) {
				errs = append(errs, fmt.Errorf("-e: the table @%s: expected a local file", storeurl.Redact(path)))
				continue
			}
			text, err := interruptible(ctx, func() ([]byte, error) { return readText(path, maxTable) })
			if err != nil {
				errs = append(errs, fileError{fmt.Errorf("-e: the table %s: %w", shown(path), cause(err))})
				continue
			}
			if job.Tables == nil {
				job.Tables = map[string]string{}
			}
			job.Tables[path] = string(text)
		}
	}
	return errors.Join(errs...)
}
