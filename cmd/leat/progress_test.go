package main

import (
	"encoding/json"
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
	p.now, p.ascii = func() time.Time { return now }, false
	p.begin()
	return p, &out, func(d time.Duration) { now = now.Add(d) }
}

func TestProgressLinesInLog(t *testing.T) {
	p, out, wait := fakeProgress(progressLines)
	for i := 1; i <= 120; i++ {
		wait(100 * time.Millisecond)
		p.update(i, 120, int64(i)*1e6, "encoding")
	}
	p.finish()
	want := `50 of 120 blocks (41 %), 10 Mpixel/s, about 7 s left, mostly compressing
100 of 120 blocks (83 %), 10 Mpixel/s, about 2 s left, mostly compressing
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestProgressBarIsASCIIWithoutUTF8(t *testing.T) {
	p, out, wait := fakeProgress(progressLine)
	p.ascii = true
	wait(time.Second)
	p.update(2, 4, 2e6, "reading")
	if want := "\r############------------  50 %  2/4 blocks"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q", out)
	}
	for _, c := range []struct {
		all, ctype, lang string
		ascii            bool
	}{{"C", "", "en_US.UTF-8", true}, {"", "", "de_DE.utf8", false}, {"", "POSIX", "C.UTF-8", true},
		{"", "", "", true}, {"C.UTF-8", "C", "C", false}, {"en_US.ISO-8859-1", "", "", true}} {
		values := map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		if got := asciiLocale(func(name string) string { return values[name] }); got != c.ascii {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestShortRunPrintsNoLine(t *testing.T) {
	p, out, wait := fakeProgress(progressLines)
	for i := 1; i <= 4; i++ {
		wait(time.Second)
		p.update(i, 4, int64(i), "reading")
	}
	p.finish()
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
	p.finish()
	p.update(3, 4, 3e6, "reading")
	p.finish()
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
	p.finish()
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

func TestNarrowTerminalKeepsPercentAndTimeLeft(t *testing.T) {
	for columns, want := range map[int]string{
		79: "████████████░░░░░░░░░░░░  50 %  20/40 blocks  2.0 Mpixel/s  10 s left  reading",
		70: "████░░░░  50 %  20/40 blocks  2.0 Mpixel/s  10 s left  reading",
		60: "████░░░░  50 %  20/40 blocks  10 s left  reading",
		40: " 50 %  20/40 blocks  10 s left  reading",
		20: " 50 %  10 s left",
		8:  " 50 %  ",
	} {
		p, out, wait := fakeProgress(progressLine)
		p.width = func() int { return columns }
		for i := range 20 {
			wait(500 * time.Millisecond)
			p.update(i+1, 40, int64(i+1)*1e6, "reading")
		}
		lines := strings.Split(out.String(), "\r")
		got := strings.TrimSuffix(lines[len(lines)-1], "\x1b[K")
		if got != want {
			t.Errorf("%d columns: %q, expected %q", columns, got, want)
		}
	}
}

func TestProgressEvents(t *testing.T) {
	p, out, wait := fakeProgress(progressJSON)
	for i := range 10 {
		wait(200 * time.Millisecond)
		p.update(i+1, 11, int64(i+1)*100, "computing")
	}
	p.finish()
	var blocks []int
	for line := range strings.Lines(out.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if e["event"] != "progress" || e["blocks"] != 11.0 || e["bottleneck"] != "computing" {
			t.Errorf("event %v", e)
		}
		blocks = append(blocks, int(e["done_blocks"].(float64)))
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
	p.finish()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !strings.Contains(lines[len(lines)-1], `"done_blocks":800`) {
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
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil || e.Remaining == nil {
				continue
			}
			truth := float64(total-done) / float64(c.workers) * c.round.Seconds()
			if *e.Remaining < truth/2 || *e.Remaining > truth*2 {
				t.Errorf("%s: %.0f s after %v, it takes %.0f s", c.name, *e.Remaining, at.Sub(p.start), truth)
			}
			break
		}
		if !strings.Contains(out.String(), `"remaining_seconds":`) {
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
