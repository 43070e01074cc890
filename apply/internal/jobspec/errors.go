package jobspec

import (
	"errors"
	"fmt"

	"leat/apply/outcome"
)

// JobErrors makes each of several errors a JobError; nil for none.
func JobErrors(errs ...error) error {
	var list []error
	for _, err := range errs {
		if err != nil {
			list = append(list, &outcome.JobError{Err: err})
		}
	}
	return errors.Join(list...)
}

// Errorf returns a FieldError, or a plain error if field is "".
func Errorf(field, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if field == "" {
		return err
	}
	return &outcome.FieldError{Field: field, Err: err}
}

// JobErrorf returns Errorf as an outcome.JobError.
func JobErrorf(field, format string, args ...any) error {
	return &outcome.JobError{Err: Errorf(field, format, args...)}
}

// NewNotes returns notes of these texts, without fields.
func NewNotes(texts ...string) []outcome.Note {
	var notes []outcome.Note
	for _, text := range texts {
		notes = append(notes, outcome.Note{Text: text})
	}
	return notes
}
