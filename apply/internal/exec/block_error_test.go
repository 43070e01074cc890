package exec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/worker/protocol"
	"leat/worker"
)

func TestRepeatedFailureOfSetup(t *testing.T) {
	r := &failures{blocks: block.Plan{Width: 64, Height: 64, WindowWidth: 16, WindowHeight: 16}}
	failure := func(block int, message string) *worker.Failure {
		return &worker.Failure{Worker: "subprocess-0", Block: block, Message: message, Code: stageSetup}
	}
	first := failure(1, "setting up worker 1: no model")
	err := r.blockErrors(&worker.RunError{Cause: first, After: []error{failure(0, first.Message)}})
	if strings.Contains(err.Error(), "block ") || strings.Contains(err.Error(), "after that") {
		t.Errorf("the error is %v", err)
	}
	err = r.blockErrors(&worker.RunError{Cause: first, After: []error{failure(0, "out of memory")}})
	if !strings.Contains(err.Error(), "after that: ") || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("the error is %v", err)
	}
}

// The codes of a worker's message carry every field of a job, with all sentinels, in the length
// that the protocol allows.
func TestWorkerErrorsKeepFields(t *testing.T) {
	sentinels := make([]error, MaxErrors+len(sharedErrors))
	for i := range sentinels {
		sentinels[i] = fmt.Errorf("sentinel %d", i)
	}
	r := &failures{blocks: block.Plan{Width: 1, Height: 1, WindowWidth: 1, WindowHeight: 1}, known: sentinels}
	checked := 0
	for name, typ := range map[string]reflect.Type{"Input": reflect.TypeFor[jobspec.Input](), "Output": reflect.TypeFor[jobspec.Output](),
		"Vector": reflect.TypeFor[jobspec.Vector](), "Controls": reflect.TypeFor[jobspec.Controls](),
		"Concurrency": reflect.TypeFor[jobspec.Concurrency]()} {
		for f := range typ.NumField() {
			field := name + "." + typ.Field(f).Name
			err := &outcome.FieldError{Field: field, Err: errors.Join(sentinels...)}
			for _, stage := range []string{stageStarting, stageReading, stageComputing, stageSetup, stageClosing} {
				code := (&workerError{&outcome.FieldError{Field: "Outer", Err: fmt.Errorf("inner: %w", err)}, stage, sentinels}).Code()
				if len(code) > protocol.MaxCode {
					t.Errorf("%s: %q has %d bytes, more than %d", field, code, len(code), protocol.MaxCode)
				}
				got := r.blockError(&worker.Failure{Worker: "w", Block: -1, Message: "no", Code: code})
				if f := fieldOf(got); f == nil || f.Field != field {
					t.Errorf("%s: the field is %v", code, f)
				}
				checked++
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d codes were checked", checked)
	}
	changed := &outcome.InputChangedError{Change: "a.tif was written to", During: "read", Overwritten: true}
	f := &worker.Failure{Worker: "w", Message: "input a: " + changed.Error(),
		Code: (&workerError{fmt.Errorf("input a: %w", changed), stageReading, nil}).Code()}
	if got := new(outcome.InputChangedError); !errors.As(r.blockError(f), &got) || got.Change != "input a: a.tif was written to" ||
		!got.Overwritten {
		t.Errorf("%+v", got)
	}
}
