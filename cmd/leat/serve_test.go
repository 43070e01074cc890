package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/live"
	"leat/ndarray"
	"leat/raster"
	"leat/timing"
)

// The page's numbers are those of the run, and it shows the run's end.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	leat := filepath.Join(dir, "leat")
	// A name of its own, not a symbolic link: its workers run the file, and are found by its name
	// what they are.
	if err := os.Link(exe, leat); err != nil {
		t.Skipf("the test binary can't be linked: %v", err)
	}
	grid := raster.Grid{Width: 2000, Height: 2000, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}}
	if _, err := apply.Run(t.Context(), apply.Job{Controls: apply.Controls{Grid: &grid},
		Outputs: map[string]apply.Output{"out": {Path: filepath.Join(dir, "a.tif"), NoOverviews: true,
			NoStatistics: true}},
		Func: func(_ context.Context, b *apply.Block) error {
			a := b.NewOut(ndarray.Uint16, 1)
			hills[uint16](a, b, 0, 0)
			b.SetOut("out", a)
			return nil
		}}); err != nil {
		t.Fatal(err)
	}
	kinds := [][]string{{"--on", "subprocess", "--workers", "2"}, {"-j", "2"}}
	if testing.Short() {
		kinds = kinds[:1] // the runs have to take longer than the page's second
	}
	for _, on := range kinds {
		// The page is as the run was up to a second ago: one that is over meanwhile is not seen at
		// its work, and the next has more.
		seen := false
		for terms := 30; !seen && terms <= 1000 && !t.Failed(); terms *= 3 {
			seen = seenAtWork(t, leat, on, terms)
		}
		if !seen {
			t.Errorf("%v: no run was seen at its work", on)
		}
	}
}

// checkRefused checks that the page of a run that goes on refuses requests.
func checkRefused(t *testing.T, urls ...string) {
	t.Helper()
	for _, url := range urls {
		resp, err := http.Get(url)
		if err != nil {
			continue // the run is over
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", url, resp.Status)
		}
	}
}

func TestLivePageShowsHint(t *testing.T) {
	t.Parallel()
	s := &shownRun{rec: timing.New()}
	s.page = live.New(live.Options{Status: s.status})
	url, err := s.page.Listen("0")
	if err != nil {
		t.Fatal(err)
	}
	s.end(&outcome.FieldError{Field: "Controls.Unscale", Err: errors.New("bad scale")})
	if st := s.status(); st.Phase != live.Failed || st.Err != "bad scale" || st.Hint != "leave out --unscale" {
		t.Errorf("%s: %+v", url, st)
	}
}

func TestShortTokenIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leat(t, exitDone, dir, "demo", "--size", "64", ".")
	c, out := process(t, dir, "apply", "-i", "a=B04.tif", "-o", "o=o.tif", "-e", "a", "--serve", "0")
	c.Env = append(os.Environ(), serveToken+"=tooshort")
	_ = c.Run()
	if c.ProcessState.ExitCode() != exitUsage || !strings.Contains(out.String(), serveToken) ||
		strings.Contains(out.String(), "tooshort") {
		t.Errorf("exit code %d: %s", c.ProcessState.ExitCode(), out)
	}
}

// seenAtWork has a program run an expression of so many terms, looks at its page, and reports
// whether it was seen among its blocks.
func seenAtWork(t *testing.T, leat string, on []string, terms int) (working bool) {
	t.Helper()
	heavy := "a"
	for i := range terms {
		heavy += fmt.Sprintf(" + sin(a + %d)", i)
	}
	args := append([]string{"apply", "-q", "-i", "a=a.tif", "-o", "x=x.tif", "-e", heavy, "--window", "256", "--serve",
		"0"}, on...)
	c := exec.CommandContext(t.Context(), leat, args...)
	c.Dir = filepath.Dir(leat)
	const fixed = "a token of 16 or more"
	if on[0] == "--on" {
		c.Env = append(os.Environ(), serveToken+"="+fixed)
	}
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/(\?token=[0-9a-f]{32})?`).FindString(line)
	if url == "" || strings.Contains(url, "token") == (on[0] == "--on") {
		t.Fatalf("%q has no URL, or one with the fixed token (%v)", line, err)
	}
	if on[0] == "--on" {
		checkRefused(t, url+"status.json", url+"status.json?token=another+of+16+or+more")
		url += "?token=" + strings.ReplaceAll(fixed, " ", "+")
	}
	var seen struct {
		Title   string
		Memory  int64    `json:"memory_bytes"`
		Jobs    []string `json:"jobs"`
		Phase   string
		Blocks  struct{ Total, Done int }
		Grid    struct{ Cells string }
		Workers []struct {
			Kind, State string
			PID         int
		}
		Outputs []struct{ Bytes int64 }
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		resp, err := http.Get(strings.Replace(url, "/?", "/status.json?", 1))
		if err != nil {
			break // the run is over
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || json.Unmarshal(text, &seen) != nil {
			break
		}
		if seen.Phase == "blocks" && seen.Blocks.Done > 0 {
			working = true
			if seen.Title != "x.tif" || seen.Memory <= 0 || (on[0] == "--on") != (len(seen.Jobs) > 0) {
				t.Errorf("title %q, %d bytes of memory, jobs %q", seen.Title, seen.Memory, seen.Jobs)
			}
			if seen.Blocks.Total != 16 || len(seen.Grid.Cells) != 16 || strings.Count(seen.Grid.Cells,
				"d") > seen.Blocks.Done+2 {
				t.Errorf("%d of %d blocks, the grid is %q", seen.Blocks.Done, seen.Blocks.Total, seen.Grid.Cells)
			}
			if len(seen.Workers) != 2 || len(seen.Outputs) != 1 || seen.Outputs[0].Bytes == 0 {
				t.Errorf("workers %+v, outputs %+v", seen.Workers, seen.Outputs)
			}
			if on[0] == "--on" && (seen.Workers[0].Kind != "subprocess" || seen.Workers[0].PID == 0) {
				t.Errorf("workers %+v", seen.Workers)
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := io.Copy(io.Discard, stderr); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %v", on, err)
	}
	return working
}
