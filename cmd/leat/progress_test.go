package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeProgress has a clock that the test moves and a terminal of 80 columns.
func fakeProgress(mode progressMode) (*progress, *strings.Builder, func(time.Duration)) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	p := newProgress(&out, mode)
	p.now = func() time.Time { return now }
	p.begin()
	return p, &out, func(d time.Duration) { now = now.Add(d) }
}

func TestProgressLinesInLog(t *testing.T) {
	p, out, wait := fakeProgress(progressLines)
	for i := 1; i <= 120; i++ {
		wait(100 * time.Millisecond)
		p.update(i, 120, int64(i)*1e6, "encoding")
	}
	p.finish(nil)
	want := `50 of 120 blocks (41 %), 10.0 Mpixel/s, about 7 s left, bottleneck encoding
100 of 120 blocks (83 %), 10.0 Mpixel/s, about 2 s left, bottleneck encoding
120 of 120 blocks in 12.0 s, 10.0 Mpixel/s
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestShortRunPrintsNoLine(t *testing.T) {
	p, out, wait := fakeProgress(progressLines)
	for i := 1; i <= 4; i++ {
		wait(time.Second)
		p.update(i, 4, int64(i), "reading")
	}
	p.finish(nil)
	if out.Len() != 0 {
		t.Errorf("printed %q", out)
	}
}

func TestProgressLineIsRemoved(t *testing.T) {
	p, out, wait := fakeProgress(progressLine)
	p.update(0, 4, 0, "")
	wait(50 * time.Millisecond)
	p.update(1, 4, 1e6, "reading") // too soon
	wait(950 * time.Millisecond)
	p.update(2, 4, 2e6, "reading")
	p.update(1, 4, 1e6, "reading") // overtaken
	p.finish(errors.New("disk full"))
	p.update(3, 4, 3e6, "reading")
	p.finish(nil)
	want := []string{"",
		"░░░░░░░░░░░░░░░░░░░░░░░░   0 %  0/4 blocks\x1b[K",
		"████████████░░░░░░░░░░░░  50 %  2/4 blocks  2.0 Mpixel/s  reading\x1b[K",
		"\x1b[K"}
	if d := cmp.Diff(want, strings.Split(out.String(), "\r")); d != "" {
		t.Error(d)
	}
}

func TestLinesAboveProgressLine(t *testing.T) {
	p, out, wait := fakeProgress(progressLine)
	above := p.above(out)
	io.WriteString(above, "leat: before\n")
	wait(time.Second)
	p.update(1, 4, 1e6, "reading")
	shown := out.String()
	line := shown[strings.LastIndexByte(shown, '\r'):]
	io.WriteString(above, "leat: worker lost\n")
	p.finish(nil)
	io.WriteString(above, "leat: after\n")
	want := "leat: before\n" + line + "\r\x1b[Kleat: worker lost\n" + line + "\r\x1b[Kleat: after\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	p, out, _ = fakeProgress(progressLines)
	p.update(1, 4, 1e6, "reading")
	if io.WriteString(p.above(out), "leat: plain\n"); out.String() != "leat: plain\n" {
		t.Errorf("%q", out)
	}
}

func TestProgressLineFitsTerminal(t *testing.T) {
	p, out, _ := fakeProgress(progressLine)
	p.width = func() int { return 20 }
	p.update(1, 4, 1e6, "reading")
	line := strings.TrimSuffix(strings.TrimPrefix(out.String(), "\r"), "\x1b[K")
	if n := len([]rune(line)); n != 19 {
		t.Errorf("%d columns: %q", n, line)
	}
}

func TestProgressEvents(t *testing.T) {
	p, out, wait := fakeProgress(progressJSON)
	for i := range 10 {
		wait(200 * time.Millisecond)
		p.update(i+1, 11, int64(i+1)*100, "computing")
	}
	p.finish(nil)
	var blocks []int
	for line := range strings.Lines(out.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if e["event"] != "progress" || e["total"] != 11.0 || e["bottleneck"] != "computing" {
			t.Errorf("event %v", e)
		}
		blocks = append(blocks, int(e["blocks"].(float64)))
	}
	if d := cmp.Diff([]int{1, 4, 7, 10}, blocks); d != "" {
		t.Error(d)
	}
}

func TestConcurrentProgress(t *testing.T) {
	p, out, _ := fakeProgress(progressJSON)
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for k := range 100 {
				p.update(i*100+k, 800, 1, "reading")
			}
		})
	}
	g.Wait()
	p.update(800, 800, 800, "reading")
	p.finish(nil)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !strings.Contains(lines[len(lines)-1], `"blocks":800`) {
		t.Errorf("last line %s", lines[len(lines)-1])
	}
}

func TestFirstTimeLeft(t *testing.T) {
	for _, c := range []struct {
		name         string
		before       int           // blocks of an earlier run
		start, round time.Duration // before the first block, and between rounds of a block of each worker
		workers      int
	}{
		{"resumed", 1000, 1040 * time.Millisecond, 15 * time.Millisecond, 1},
		{"not resumed", 0, 1040 * time.Millisecond, 15 * time.Millisecond, 1},
		{"workers that waited in a queue", 0, time.Hour, 60 * time.Millisecond, 4},
		{"slow blocks of many workers", 0, 8 * time.Second, 8 * time.Second, 64},
	} {
		p, out, wait := fakeProgress(progressJSON)
		const total = 5000
		if c.before > 0 {
			p.from(c.before, total, int64(c.before))
		}
		wait(c.start - c.round)
		for done := c.before; done < total; {
			wait(c.round)
			for range c.workers {
				done = min(done+1, total)
				p.update(done, total, int64(done), "")
			}
			at := p.now()
			var e progressEvent
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil || e.Left == nil {
				continue
			}
			truth := float64(total-done) / float64(c.workers) * c.round.Seconds()
			if *e.Left < truth/2 || *e.Left > truth*2 {
				t.Errorf("%s: %.0f s after %v, it takes %.0f s", c.name, *e.Left, at.Sub(p.start), truth)
			}
			break
		}
		if !strings.Contains(out.String(), `"eta_s":`) {
			t.Errorf("%s: no time left", c.name)
		}
	}
}

func TestServeTimeLeft(t *testing.T) {
	p, out, wait := fakeProgress(progressLines)
	done := 0
	for range 60 { // fast at first
		wait(time.Second)
		done += 10
		p.update(done, 1000, int64(done), "")
	}
	for range 20 { // then slow
		wait(time.Second)
		done++
		p.update(done, 1000, int64(done), "")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "about 6 min left") {
		t.Errorf("last line %q", last)
	}
}
