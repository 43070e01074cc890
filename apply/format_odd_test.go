package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leat/internal/gdal"
	"leat/internal/proctest"
	"leat/internal/rundir"
	"leat/ndarray"
	"leat/raster"
)

func TestFormatsOfFixedSize(t *testing.T) {
	needFormat(t, "SRTMHGT")
	const side, step = 1201, 1.0 / 1200
	grid := raster.Grid{Width: side, Height: side, CRS: raster.CRS{Code: "EPSG:4326"}, HasTransform: true,
		Transform: raster.Transform{5 - step/2, step, 0, 48 + step/2, 0, -step}}
	o := Output{Path: filepath.Join(t.TempDir(), "N47E005.hgt"), Format: "SRTMHGT", Type: ndarray.Int16, Bands: 1,
		NoOverviews: true}
	px := terrain[int16](side, side, 1)
	mustRun(t, sliceJob(grid, px, o))
	f, err := gdal.Open(o.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !slices.Equal(allOf[int16](t, f), px) {
		t.Error("other pixels")
	}
	o.Path = filepath.Join(t.TempDir(), "N47E006.hgt")
	grid.Width--
	failRun(t, sliceJob(grid, px, o), "N47E006.hgt", "1201x1201")
}

func TestFormatWithoutTypes(t *testing.T) {
	needFormat(t, "XYZ")
	o := Output{Path: filepath.Join(t.TempDir(), "x.xyz"), Format: "XYZ", Type: ndarray.Int32, Bands: 1,
		NoOverviews: true}
	px := make([]int32, 64*64)
	for i := range px {
		px[i] = int32(i % 200)
	}
	res := mustRun(t, sliceJob(mapGrid(64, 64, 0, 0), px, o))
	if w := strings.Join(noteTexts(res.Outputs[0].Warnings), "; "); !strings.Contains(w, "which are read as uint8") {
		t.Errorf("the warnings are %q", w)
	}
	f, err := gdal.Open(o.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, v := range allOf[uint8](t, f) {
		if int32(v) != px[i] {
			t.Fatalf("pixel %d is %d, not %d", i, v, px[i])
		}
	}
}

func TestFormatDiskFull(t *testing.T) {
	needFormat(t, "ERS")
	const side = 700
	px := make([]uint8, side*side)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range px {
		px[i] = uint8(r.Uint32())
	}
	var full, whole int
	for size := 990; size <= 1080; size += 10 { // from sizes that hold the pixels but not all sidecars
		dir := smallDisk(t, fmt.Sprintf("%dk", size))
		o := Output{Path: filepath.Join(dir, "out.ers"), Format: "ERS"}
		res, err := Run(t.Context(), sliceJob(mapGrid(side, side, 0, 0), px, o))
		if err != nil {
			full++
			if !strings.Contains(err.Error(), "is full") || !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%dk: %v", size, err)
			}
			continue
		}
		whole++
		if w := strings.Join(noteTexts(res.Outputs[0].Warnings), "; "); strings.Contains(w, "overviews") || strings.Contains(w,
			"statistics") {
			t.Errorf("%dk: %s", size, w)
		}
	}
	if full == 0 || whole == 0 {
		t.Errorf("%d runs failed, and %d did not", full, whole)
	}
}

func TestReplaceDirectoryOutput(t *testing.T) {
	needFormat(t, "Zarr")
	o := Output{Path: filepath.Join(t.TempDir(), "x.zarr"), Format: "Zarr", NoOverviews: true}
	for n := range 2 {
		px := terrain[uint8](64, 64, uint64(n))
		mustRun(t, sliceJob(mapGrid(64, 64, 0, 0), px, o))
		f, err := gdal.Open(o.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(allOf[uint8](t, f), px) {
			t.Errorf("run %d: other pixels", n)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	// Of two concurrent runs the second is rejected, as with files.
	var second error
	job := sliceJob(mapGrid(64, 64, 0, 0), terrain[uint8](64, 64, 3), o)
	work := job.Func
	job.Func = func(ctx context.Context, b *Block) error {
		_, second = Run(ctx, sliceJob(mapGrid(64, 64, 0, 0), terrain[uint8](64, 64, 4), o))
		return work(ctx, b)
	}
	mustRun(t, job)
	if second == nil || !strings.Contains(second.Error(), "x.zarr is being written by") {
		t.Errorf("the second run said %v", second)
	}
}

func TestSweepKilledFormatSample(t *testing.T) {
	needFormat(t, "PNG", "ENVI")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	left := func() (names []string) {
		list, err := os.ReadDir(temporary)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			names = append(names, e.Name())
		}
		return names
	}
	for range 2 {
		if killed, output, err := proctest.New("format output", t.TempDir(), "false").KillAt("apply.tried",
			1).Start(t).Wait(); !killed {
			t.Fatalf("the child was not killed: %v\n%s", err, output)
		}
		if list := left(); len(list) != 1 {
			t.Errorf("%q is left of one trial", list)
		}
	}
	// A plan writes a sample too. It must not remove the directories of others.
	other, err := rundir.Make(temporary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := MakePlan(t.Context(), formatPlanJob(t.TempDir())); err != nil {
		t.Fatal(err)
	}
	if list := left(); !slices.Equal(list, []string{filepath.Base(other.Path)}) {
		t.Errorf("%q is left", list)
	}
	if err := other.Remove(); err != nil {
		t.Error(err)
	}
}

// formatPlanJob returns a job whose plan writes a sample.
func formatPlanJob(dir string) Job {
	o := Output{Path: filepath.Join(dir, "x.png"), Format: "PNG", Type: ndarray.Uint8, Bands: 1}
	return Job{Controls: Controls{Grid: gridOf(64, 64)}, Outputs: map[string]Output{"out": o}, Func: nothing}
}
