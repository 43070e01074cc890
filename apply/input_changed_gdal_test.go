package apply

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// nestedVRT makes a VRT of a VRT of a GeoTIFF, each in a directory of its own.
func nestedVRT(t *testing.T) (top, deepest string) {
	t.Helper()
	needGDAL(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "parts"), 0o700); err != nil {
		t.Fatal(err)
	}
	top, deepest = filepath.Join(dir, "top.vrt"), filepath.Join(dir, "parts", "in.tif")
	middle := filepath.Join(dir, "parts", "middle.vrt")
	write(t, deepest, mapGrid(resumeSide, resumeSide, 0, 0), terrain[uint16](resumeSide, resumeSide, 1), nil)
	gdalProgram(t, "gdalbuildvrt", "-q", middle, deepest)
	gdalProgram(t, "gdalbuildvrt", "-q", top, middle)
	return top, deepest
}

func TestResumeChecksVRTSources(t *testing.T) {
	top, deepest := nestedVRT(t)
	dir := t.TempDir()
	stopped(t, oneInput(top, dir, 40))
	job := oneInput(top, dir, 40)
	job.Resume = true
	stopped(t, job) // nothing has changed
	replace(t, deepest)
	job = oneInput(top, dir, -1)
	job.Resume = true
	failRun(t, job, "input a: "+deepest+" was changed at ")
}

func TestGDALInputReplaced(t *testing.T) {
	for name, warped := range map[string]bool{"on the grid": false, "warped": true} {
		t.Run(name, func(t *testing.T) {
			top, deepest := nestedVRT(t)
			dir := t.TempDir()
			job := oneInput(top, dir, -1)
			if warped {
				in := job.Inputs["a"]
				in.Resample = "bilinear"
				job.Inputs["a"] = in
				g := mapGrid(resumeSide, resumeSide, 0, 0)
				g.Transform[0] += g.Transform[1] / 3
				job.Controls.Grid = &g
			}
			copies := job.Func
			job.Func = func(ctx context.Context, b *Block) error {
				if b.Number == 3 {
					replace(t, deepest)
				}
				return copies(ctx, b)
			}
			failRun(t, job, "input a: "+deepest+" was changed at ", "while it was read, so that its pixels")
			if _, err := os.Stat(job.Outputs["out"].Path); err == nil {
				t.Error("there is an output")
			}
			job.Func = copies
			mustRun(t, job)
		})
	}
}
