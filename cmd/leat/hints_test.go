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
)

func TestFieldHintsNameFieldsAndFlags(t *testing.T) {
	types := map[string]reflect.Type{"Input": reflect.TypeFor[apply.Input](), "Output": reflect.TypeFor[apply.Output](),
		"Vector": reflect.TypeFor[apply.Vector](), "Controls": reflect.TypeFor[apply.Controls](),
		"Concurrency": reflect.TypeFor[apply.Concurrency]()}
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

func TestHintFollowsMessage(t *testing.T) {
	field := &outcome.FieldError{Field: "Controls.Unscale", Err: errors.New("bad scale")}
	var b bytes.Buffer
	printError(&b, errors.Join(errors.New("one"), fmt.Errorf("input a: %w", field), fmt.Errorf("input b: %w", field)))
	const want = "leat: one\nleat: input a: bad scale\nleat: input b: bad scale\nhint: leave out --unscale\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
