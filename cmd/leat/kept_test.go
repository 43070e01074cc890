package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"leat/apply"
)

func TestAnInterruptionSaysWhatItHasLeft(t *testing.T) {
	kept := &apply.UnpublishedError{Err: fmt.Errorf("output b: %w", context.Canceled),
		Files: map[string]string{"b": "/tmp/b-1.tif", "a": "a-2.tif"}}
	for want, err := range map[string]error{
		"interrupted: nothing was written, and files that were there are as they were":                                                                             context.Canceled,
		"interrupted: the outputs are whole, but the preview, trace or report is missing":                                                                          afterOutputs{context.Canceled},
		"interrupted while outputs were written: what was finished is kept, output a as a-2.tif, output b as /tmp/b-1.tif; files that were there are as they were": errors.Join(kept),
	} {
		if got := strings.Join(interrupted(err), "\n"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
