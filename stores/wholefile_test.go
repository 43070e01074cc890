package stores

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"leat/apply"
	"leat/apply/outcome"
	"leat/block"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
)

// masked writes a raster with a mask in an uncompressed sidecar.
func masked(t *testing.T, s *shop, grid raster.Grid) {
	t.Helper()
	scene(t, s.path("a.tif"), grid, 1, 1, nil)
	mustRun(t, apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.path("a.tif"))},
		Outputs: map[string]apply.Output{"out": {Path: s.path("mask.tif"), Type: ndarray.Uint8, TileSize: 64,
			Compression: "none",
			Metadata:    map[string]string{"INTERNAL_MASK_FLAGS_1": "2"}}},
		Expressions: map[string]string{"out": "a > 1000 ? 255 : 0"}})
	if err := os.Rename(s.path("mask.tif"), s.path("a.tif.msk")); err != nil {
		t.Fatal(err)
	}
}

func TestSidecarWithoutRangesIsReadOnce(t *testing.T) {
	large := testGrid
	large.Width, large.Height = 2200, 2100 // the mask is too large for memoryBytes
	for name, grid := range map[string]raster.Grid{"in memory": testGrid, "staged": large} {
		for what, set := range map[string]func(*shop){"no parts": func(s *shop) { s.noRanges = true },
			"no versions": func(s *shop) { s.plain = true }} {
			t.Run(name+", "+what, func(t *testing.T) {
				s := newShop(t)
				masked(t, s, grid)
				dir := t.TempDir()
				job := func(path, out string) apply.Job {
					return apply.Job{Inputs: map[string]apply.Input{"a": apply.File(path)},
						Outputs:     map[string]apply.Output{"out": {Path: filepath.Join(dir, out), TileSize: 64}},
						Expressions: map[string]string{"out": "a + 1"},
						Controls: apply.Controls{WindowWidth: 256, WindowHeight: 256,
							Window: &block.Window{Row: grid.Height - 150, Width: grid.Width, Height: 150}}}
				}
				mustRun(t, job(s.path("a.tif"), "local.tif"))
				set(s)
				remote := job(s.url("a.tif"), "remote.tif")
				remote.Open = newStores(t, filepath.Join(dir, "stage")).Open
				mustRun(t, remote)
				sameFile(t, remote.Outputs["out"].Path, filepath.Join(dir, "local.tif"))
				if n := s.gets("a.tif.msk"); n != 2 { // the beginning, then all
					t.Errorf("the mask was asked for %d times", n)
				}
			})
		}
	}
}

func TestLargeSidecarNeedsStage(t *testing.T) {
	s := newShop(t)
	grid := testGrid
	grid.Width, grid.Height = 2200, 2100
	masked(t, s, grid)
	stores := newStores(t, "")
	s.plain = true
	job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.url("a.tif"))},
		Outputs:     map[string]apply.Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif")}},
		Expressions: map[string]string{"out": "a"}, Open: stores.Open}
	_, err := apply.Run(t.Context(), job)
	if f := new(outcome.FieldError); !errors.As(err, &f) || f.Field != "Input.Source" {
		t.Errorf("the error has no field Input.Source: %v", err)
	}
}

func TestUnversionedInput(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	scene(t, s.path("b.tif"), testGrid, 1, 2, nil)
	s.plain = true
	dir := t.TempDir()
	job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, "out.tif"))
	job.Controls.Window = &block.Window{Width: 10, Height: 10} // a small part of them
	job.Open = newStores(t, filepath.Join(dir, "stage")).Open
	res := mustRun(t, job)
	if in := res.Plan.Inputs[0]; in.Access != "staged" || !strings.Contains(in.Why,
		"reports no version") || len(res.Plan.Notes) > 0 {
		t.Errorf("the plan says %s: %s; %q", in.Access, in.Why, res.Plan.Notes)
	}
	for _, name := range []string{"a.tif", "b.tif"} {
		if n := s.gets(name); n != 2 { // the header, then all
			t.Errorf("%s was asked for %d times", name, n)
		}
	}
	job.Open = newStores(t, "").Open
	p, err := apply.MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 1 || p.Notes[0].Field != "Input.Source" || !strings.Contains(p.Notes[0].Text, s.url("a.tif")) ||
		p.Inputs[0].Access != "in pieces" {
		t.Errorf("%q, %s", p.Notes, p.Inputs[0].Access)
	}

	t.Run("changed before staging", func(t *testing.T) {
		stores := newStores(t, filepath.Join(dir, "other"))
		job.Open = func(ctx context.Context, url string) (raster.Source, error) {
			src, err := stores.Open(ctx, url)
			if strings.HasSuffix(url, "b.tif") {
				data, err := os.ReadFile(s.path("b.tif"))
				if err != nil {
					t.Error(err)
				}
				data[len(data)/2] ^= 1
				data[headBytes-1] ^= 1
				if err := os.WriteFile(s.path("b.tif"), data, 0o600); err != nil {
					t.Error(err)
				}
			}
			return src, err
		}
		if _, err := apply.Run(t.Context(), job); !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestUnversionedWarning(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	s.plain = true
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEAT_CACHE_DIR", filepath.Join(file, "none")) // it can't be created
	var warnings logged
	stores := New(&Options{Logger: slog.New(&warnings)})
	defer stores.Close()
	mustRun(t, apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.url("a.tif"))},
		Outputs:     map[string]apply.Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif")}},
		Expressions: map[string]string{"out": "a"}, Open: stores.Open})
	if len(warnings) != 2 || !errors.Is(warnings[0].err, syscall.ENOTDIR) || warnings[1].err != errUnversioned ||
		warnings[1].input != s.url("a.tif") {
		t.Errorf("warnings: %v", warnings)
	}
}
