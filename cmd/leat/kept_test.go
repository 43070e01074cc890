package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"leat/apply/outcome"
)

func TestInterruptedMessages(t *testing.T) {
	kept := &outcome.UnpublishedError{Err: fmt.Errorf("output b: %w", context.Canceled),
		Files: map[string]string{"b": "/tmp/b-1.tif", "a": "a-2.tif"}}
	for want, err := range map[string]error{
		"interrupted: nothing was written, and files that were there are as they were":                                                                             context.Canceled,
		"interrupted: the outputs are whole, but the preview, trace or report is missing":                                                                          afterOutputs{context.Canceled},
		"interrupted while outputs were written: what was finished is kept, output a as a-2.tif, output b as /tmp/b-1.tif; files that were there are as they were": errors.Join(kept),
	} {
		if got := interrupted(err); len(got) != 1 || got[0] != (message{text: want}) {
			t.Errorf("%q\nexpected %s", got, want)
		}
	}
}
