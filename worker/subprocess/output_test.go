package subprocess

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSplitLines(t *testing.T) {
	long := strings.Repeat("l", lineBytes)
	for name, c := range map[string]struct {
		writes, want []string
	}{
		"a line in pieces":         {[]string{"on", "e\ntw", "o\n"}, []string{"one", "two"}},
		"an end that has no break": {[]string{"one\nrest"}, []string{"one", "rest"}},
		"empty lines":              {[]string{"\n\na\n"}, []string{"", "", "a"}},
		"carriage returns":         {[]string{"a\r\nb\r\n"}, []string{"a", "b"}},
		"a line of the most bytes": {[]string{long + "\nx\n"}, []string{long, "x"}},
		"a longer one":             {[]string{long + "more\nx\n"}, []string{long, "more", "x"}},
		"bytes that are not text":  {[]string{"a\xff\xfeb\n"}, []string{"a\uFFFDb"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			r, w, err := os.Pipe()
			try(t, err)
			o := newOutput(r, func(l string) { got = append(got, l) })
			for _, s := range c.writes {
				_, err := w.WriteString(s)
				try(t, err)
			}
			try(t, w.Close())
			<-o.passed
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// What a worker wrote last is not lost on a machine that stands still until the deadline.
func TestPipeIsDrainedAtDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	try(t, err)
	defer w.Close() // somebody holds it open
	var got []string
	held, goOn := make(chan struct{}), make(chan struct{})
	o := newOutput(r, func(l string) {
		if got = append(got, l); len(got) == 1 {
			close(held)
			<-goOn
		}
	})
	_, err = w.WriteString("first\n")
	try(t, err)
	<-held
	last := strings.Repeat("l", 100)
	_, err = w.WriteString(strings.Repeat(last+"\n", 600)) // more than is read at once
	try(t, err)
	try(t, r.SetReadDeadline(time.Unix(1, 0)))
	close(goOn)
	<-o.passed
	if len(got) != 601 || got[600] != last || o.end() == "" {
		t.Errorf("%d lines", len(got))
	}
}

func TestSlowOutputIsWaitedFor(t *testing.T) {
	r, w, err := os.Pipe()
	try(t, err)
	var n atomic.Int64
	o := newOutput(r, func(string) {
		time.Sleep(outputWait / 2)
		n.Add(1)
	})
	_, err = w.WriteString(strings.Repeat("l\n", 10))
	try(t, err)
	try(t, w.Close())
	o.await()
	if n.Load() != 10 {
		t.Errorf("%d lines of 10", n.Load())
	}
}

func TestOutputTail(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	var all strings.Builder
	o := &output{}
	for i := range 2000 {
		l := itoa(i) + line
		all.WriteString(l)
		_, _ = o.Write([]byte(l))
		got := o.end()
		if want := strings.TrimSuffix(all.String(), "\n"); !strings.HasSuffix(want, got) {
			t.Fatalf("after line %d: %q", i, got)
		}
		if len(got) > tailBytes || len(got) < min(all.Len()-1, tailBytes-2*len(l)) {
			t.Fatalf("after line %d: %d bytes", i, len(got))
		}
		if !strings.HasPrefix(all.String(), got) && !strings.Contains(all.String(), "\n"+got) {
			t.Fatalf("after line %d it begins amid a line: %.30q", i, got)
		}
		if len(o.tail) > 2*tailBytes {
			t.Fatalf("%d bytes are kept", len(o.tail))
		}
	}
	_, _ = o.Write([]byte(strings.Repeat("y", 10*tailBytes)))
	if got := o.end(); got != strings.Repeat("y", tailBytes) {
		t.Errorf("of one long line %d bytes are kept: %.20q", len(got), got)
	}
}
