package apply

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/worker/subprocess"
)

// Without a check, an input that is written to while it is read would give an output of two states
// of it.
func TestInputWrittenDuringRun(t *testing.T) {
	overwrite := func(t *testing.T, path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Error(err)
		}
	}
	for how, c := range map[string]struct {
		change func(t *testing.T, path string, other []byte)
		fails  string // suffix of the file that the error names
	}{
		"other pixels": {func(t *testing.T, path string, other []byte) { overwrite(t, path, other) }, "red.tif"},
		"cut short": {func(t *testing.T, path string, other []byte) { overwrite(t, path, other[:len(other)/8]) },
			"red.tif"},
		"another mask": {func(t *testing.T, path string, other []byte) { overwrite(t, path+".msk", other) },
			"red.tif.msk"},
		"replaced by another": {func(t *testing.T, path string, other []byte) {
			overwrite(t, path+"~", other)
			rename(t, path+"~", path)
		}, ""},
		"removed": {func(t *testing.T, path string, _ []byte) { rename(t, path, path+"~") }, ""},
		"statistics next to it": {func(t *testing.T, path string,
			_ []byte) {
			overwrite(t, path+".aux.xml", []byte("<PAMDataset/>"))
		}, ""},
		"only its mode, or none": {func(t *testing.T, path string, _ []byte) { _ = os.Chmod(path, 0o640) }, ""},
	} {
		for where, concurrency := range map[string]Concurrency{
			"here":                    {Workers: 1, Readers: 1},
			"for others":              {Workers: 1, On: subprocess.New(nil)},
			"by others":               {Workers: 1, On: subprocess.New(nil), Reading: ReadByWorkers},
			"for others, many blocks": {Workers: 2, On: subprocess.New(nil)},
		} {
			if where != "here" && how != "other pixels" && how != "removed" {
				continue
			}
			t.Run(how+", read "+where, func(t *testing.T) {
				dir, side := t.TempDir(), 512
				path := filepath.Join(dir, "red.tif")
				make := func(path string, seed uint64) []byte {
					write(t, path, mapGrid(side, side, 0, 0), terrain[uint8](side, side, seed), func(o *Output) {
						o.Compression, o.NoStatistics, o.NoHistogram, o.Overviews = "none", true, true, []int{}
					})
					return fileBytes(t, path)
				}
				was, other := make(path, 1), make(filepath.Join(dir, "other.tif"), 2)
				if len(was) != len(other) {
					t.Fatalf("%d and %d bytes", len(was), len(other))
				}
				job := remoteJob(t, "emits one")
				job.Inputs = map[string]Input{"red": File(path)}
				job.Merge = func(int, any) error { return nil }
				if strings.Contains(c.fails, ".msk") {
					rename(t, write(t, filepath.Join(dir, "mask.tif"), mapGrid(side, side, 0, 0),
						bytes.Repeat([]byte{255}, side*side), asMask), path+".msk")
				}
				old := time.Now().Add(-time.Hour)
				for _, p := range []string{path, path + ".msk"} {
					_ = os.Chtimes(p, old, old)
				}
				want := mustRun(t, job)
				wanted := fileBytes(t, job.Outputs["out"].Path)
				job.Concurrency = concurrency
				afterBlocks(t, 1, func() { c.change(t, path, other) })
				_, err := Run(t.Context(), job)
				if c.fails == "" {
					if err != nil {
						t.Fatal(err)
					}
					if string(fileBytes(t, job.Outputs["out"].Path)) != string(wanted) {
						t.Errorf("other bytes than those of %d blocks before", want.Blocks)
					}
					return
				}
				wantError(t, err, filepath.Join(dir, c.fails)+" was written to while it was read")
				if left := new(outcome.IncompleteError); errors.As(err, &left) { // it can't be resumed
					t.Errorf("%+v", left)
				}
				noTracesBut(t, err, filepath.Dir(job.Outputs["out"].Path), job.Outputs)
			})
		}
	}
}

func TestInputsCheckedDuringRun(t *testing.T) {
	job := remoteJob(t, "emits one")
	r, _, err := prepare(t.Context(), &job, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Inputs.Close()
	c := resolve.ChangeChecker{Inputs: r.Inputs}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(r.Inputs.Files[0].Path, later, later); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Errorf("it was looked at again at once: %v", err)
	}
	c.CheckedAt.Store(time.Now().Add(-resolve.CheckInputsEvery).UnixNano())
	if err := c.Check(); !resolve.IsInputChanged(err) {
		t.Errorf("%v", err)
	}
}

func rename(t *testing.T, from, to string) {
	if err := os.Rename(from, to); err != nil {
		t.Error(err)
	}
}
