package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/apply/outcome"
)

// linesOf returns the lines of an error, sorted.
func linesOf(err error) []string {
	if err == nil {
		return nil
	}
	return slices.Sorted(strings.SplitSeq(err.Error(), "\n"))
}

func TestCheckReportsAllErrors(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(70, 60, 0, 0), terrain[uint8](70, 60, 3), nil)
	before := fileNames(t, dir)
	make := func() Job {
		return Job{Inputs: map[string]Input{"a": File(a), "b": File(filepath.Join(dir, "nosuch.tif"))},
			Outputs: map[string]Output{
				"x": {Path: filepath.Join(dir, "nodir", "x.tif")},
				"y": {Path: filepath.Join(dir, "y.tif"), TileSize: 100},
				"z": {Path: filepath.Join(dir, "z.tif")},
			},
			Expressions: map[string]string{"x": "a +", "y": "a + c", "z": "a[2]"},
			Controls:    Controls{Overlap: -1}}
	}
	wants := []string{"overlap -1", "output x: ", "nodir does not exist", "tile size 100",
		"no input is named c; the inputs are a, b", "output z: ", "input b: "}
	for what, f := range map[string]func() error{
		"Check":    func() error { return Check(t.Context(), make(), false) },
		"MakePlan": func() error { _, err := MakePlan(t.Context(), make()); return err },
		"Run":      func() error { _, err := Run(t.Context(), make()); return err },
	} {
		err := f()
		wantError(t, err, wants...)
		if !errors.As(err, new(*outcome.JobError)) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %T", what, err)
		}
		if now := fileNames(t, dir); !slices.Equal(now, before) {
			t.Errorf("%s left %q", what, now)
		}
	}
	// Remove what a partial job may lack.
	job := make()
	delete(job.Inputs, "a")
	delete(job.Outputs, "z")
	job.Expressions["nosuch"] = "a"
	delete(job.Expressions, "y")
	err := Check(t.Context(), job, true)
	wantError(t, err, "overlap -1", "output x: ", "nodir does not exist", "tile size 100", "input b: ")
	for _, line := range linesOf(err) {
		if strings.Contains(line, "no input is named") || strings.Contains(line,
			"has no expression") || strings.Contains(line, "no output of that name") {
			t.Error(line)
		}
	}
}

func TestCheckValidJob(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(70, 60, 0, 0), terrain[uint8](70, 60, 3), nil)
	files := openFiles(t)
	job := Job{Inputs: map[string]Input{"a": File(a)},
		Outputs: map[string]Output{"x": {Path: filepath.Join(dir, "x.tif")}}, Expressions: map[string]string{"x": "a"}}
	for _, partial := range []bool{false, true} {
		if err := Check(t.Context(), job, partial); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Check(ctx, job, false); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if n := openFiles(t); n != files {
		t.Errorf("%d files are open, %d were", n, files)
	}
	if _, err := os.Lstat(filepath.Join(dir, "x.tif")); err == nil {
		t.Error("Check wrote the output")
	}
}
