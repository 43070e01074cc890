package main

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/worker/runerror"
	"leat/worker"
)

func TestFieldHintsNameFieldsAndFlags(t *testing.T) {
	types := map[string]reflect.Type{"Input": reflect.TypeFor[apply.Input](), "Output": reflect.TypeFor[apply.Output](),
		"Vector": reflect.TypeFor[apply.Vector](), "Controls": reflect.TypeFor[apply.Controls](),
		"Concurrency": reflect.TypeFor[apply.Concurrency](), "Python": reflect.TypeFor[apply.Python]()}
	flags := applyCommand().Flags()
	for field, hint := range fieldHints {
		of, name, ok := strings.Cut(field, ".")
		typ := types[of]
		if !ok {
			typ, name = reflect.TypeFor[apply.Job](), field
		}
		if typ == nil {
			t.Errorf("%s: no such struct", field)
		} else if _, ok := typ.FieldByName(name); !ok {
			t.Errorf("%s: no such field", field)
		}
		for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(hint, -1) {
			if flags.Lookup(m[1]) == nil && m[1] != "formats" { // of leat info
				t.Errorf("%s: no flag --%s", field, m[1])
			}
		}
	}
}

func TestBatchHints(t *testing.T) {
	flags := applyCommand().Flags()
	for key, hint := range batchHints {
		for _, m := range regexp.MustCompile("--(aws-[a-z-]+|region|batch-options)").FindAllStringSubmatch(hint, -1) {
			if flags.Lookup(m[1]) == nil {
				t.Errorf("%s: no flag --%s", key, m[1])
			}
		}
	}
	slurmError := func(code string) error {
		return &worker.BatchError{Kind: "slurm", Code: code, Err: errors.New(code)}
	}
	left := &worker.LeftError{What: "job 17", Commands: []string{"scancel 17"}, Err: errors.New("late")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{slurmError("TIMEOUT"), "give another --time in --batch-options"},
		{&worker.BatchError{Kind: "pbs", Code: "TIMEOUT", Err: errors.New("x")}, ""},
		{slurmError("launch failed requeued held"), "release it by `scontrol release JOB`"},
		{&worker.LostError{Reason: "none is left",
			Exits: []worker.Exit{{Err: slurmError("OUT_OF_MEMORY")}, {Err: slurmError("FAILED")}}},
			"give another --mem or --mem-per-cpu in --batch-options"},
		{&worker.RunError{Cause: slurmError("TIMEOUT"), After: []error{&runerror.StopError{Err: left}}},
			"give another --time in --batch-options; to end what may be left, run `scancel 17`"},
		{&worker.LeftError{What: "jobs 1 2", Commands: []string{"qdel '1' '2'"}, Err: errors.New("late")},
			"to end what may be left, run `qdel '1' '2'`; if a node is lost, `qdel -W force`"},
	} {
		var b bytes.Buffer
		printError(&b, fmt.Errorf("a run: %w", c.err))
		_, got, _ := strings.Cut(b.String(), "hint: ")
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%v: the hint is %q, not %q", c.err, got, c.want)
		}
	}
}

func TestHintFollowsMessage(t *testing.T) {
	field := &outcome.FieldError{Field: "Controls.Unscale", Err: errors.New("bad scale")}
	var b bytes.Buffer
	printError(&b, errors.Join(errors.New("one"), fmt.Errorf("input a: %w", field), fmt.Errorf("input b: %w", field)))
	const want = "leat: one\nleat: input a: bad scale\nleat: input b: bad scale\nhint: leave out --unscale\n"
	if b.String() != want {
		t.Errorf("%q, expected %q", b.String(), want)
	}
}
