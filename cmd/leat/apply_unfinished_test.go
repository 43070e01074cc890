package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"leat/apply/outcome"
)

func TestIncompleteRunHints(t *testing.T) {
	left := &outcome.IncompleteError{Err: errors.New("a reason"),
		Paths: []string{"/d/.a.tif.leat-part", "/d/.b.tif.leat-part"}, Bytes: 3 << 20, Done: 5, Total: 9}
	const text = "5 of 9 blocks are kept in /d/.a.tif.leat-part, /d/.b.tif.leat-part (3.0 MiB)"
	const resume = "use --resume to compute the rest, or discard in its place to remove them:\n  "
	for name, c := range map[string]struct {
		args []string
		hint string
	}{
		"a command":   {[]string{"leat", "apply", "-o", "a=a b.tif", "-e", "x*2"}, resume + "leat apply --resume -o 'a=a b.tif' -e 'x*2'"},
		"one resumed": {[]string{"./leat", "apply", "-q", "--resume"}, resume + "./leat apply -q --resume"},
		"one with secret": {[]string{"leat", "apply", "-i", "a=https://u:hunter2@h/a.tif"},
			"use the same command with --resume to compute the rest, or leat apply discard to remove them"},
		"another command": {[]string{"leat", "demo", "d"}, "the next run of the same command replaces them"},
	} {
		if got := incompleteMessage(left, c.args); got != (message{text, c.hint}) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := messages(left); len(got) != 2 || got[0].text != "a reason" || got[1].text != text {
		t.Errorf("%q", got)
	}
	if got := errorText(withoutLeftover(left)); got != "a reason" {
		t.Error(got)
	}
	left.Done = left.Total
	if got := incompleteMessage(left, []string{"leat", "apply"}); got.hint !=
		"use --resume to finish the outputs, or discard in its place to remove them:\n  leat apply --resume" {
		t.Errorf("all blocks: %q", got)
	}
	left.Done, left.Err = -1, context.Canceled
	if got := interrupted(left); len(got) != 2 || !strings.HasPrefix(got[1].text,
		"the blocks of an earlier run are still in /d/.a.tif.leat-part, ") {
		t.Errorf("%q", got)
	}
}

func TestResumedBlocksDoNotCountForRate(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, progressJSON)
	now := time.Now()
	p.now = func() time.Time { return now }
	p.begin()
	p.from(90, 100, 90e6)
	now = now.Add(time.Second)
	p.update(91, 100, 91e6, "")
	now = now.Add(9 * time.Second)
	p.update(95, 100, 95e6, "")
	// Five blocks in ten seconds; the time left counts from the first of them, four blocks in nine
	// seconds.
	if got := out.String(); !strings.Contains(got, `"done_blocks":95,`) || !strings.Contains(got,
		`"pixels_per_second":500000,"remaining_seconds":11.25}`) {
		t.Error(got)
	}
}
