package zonaljob

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply"
	"leat/internal/proctest"
	"leat/internal/zonal"
	"leat/worker/subprocess"
)

// sparseZones are polygons that leave most of a raster out: one of two distant parts, a thin one
// across the raster, one without a pixel's centre, one outside, one without a geometry, and small
// ones that overlap.
const sparseZones = `{"type": "FeatureCollection", "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32632"}},
"features": [
{"type": "Feature", "properties": {"key": 1}, "geometry": {"type": "MultiPolygon", "coordinates":
 [[[[500012, 5199900], [500300, 5199980], [500200, 5199700], [500012, 5199900]]],
  [[[505900, 5195200], [505990, 5195290], [505800, 5195010], [505900, 5195200]]]]}},
{"type": "Feature", "properties": {"key": 2}, "geometry": {"type": "Polygon", "coordinates":
 [[[500000, 5200000], [503205, 5197440], [503200, 5197440], [500000, 5200000]]]}},
{"type": "Feature", "properties": {"key": 3}, "geometry": {"type": "Polygon", "coordinates":
 [[[505001, 5199001], [505003, 5199001], [505003, 5199003], [505001, 5199001]]]}},
{"type": "Feature", "properties": {"key": 4}, "geometry": {"type": "Polygon", "coordinates":
 [[[400000, 5199001], [400003, 5199001], [400003, 5199003], [400000, 5199001]]]}},
{"type": "Feature", "properties": {"key": 5}, "geometry": null},
{"type": "Feature", "properties": {"key": 6}, "geometry": {"type": "Polygon", "coordinates":
 [[[501280, 5196160], [501920, 5196160], [501920, 5195520], [501280, 5195520], [501280, 5196160]]]}},
{"type": "Feature", "properties": {"key": 7}, "geometry": {"type": "Polygon", "coordinates":
 [[[501500, 5196400], [502100, 5195900], [501400, 5195800], [501500, 5196400]]]}}
]}`

func TestBlocksWithoutZonesAreSkipped(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 600, 500)
	if err := os.WriteFile(filepath.Join(dir, "z.geojson"), []byte(sparseZones), 0o600); err != nil {
		t.Fatal(err)
	}
	const stats = "count,nodata,mean,median,mode"
	newJob := func(rule zonal.Rule) *apply.Job {
		job, err := testJob(dir, stats, rule)
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	for rule := zonal.ByCentre; rule <= zonal.ByCoverage; rule++ {
		all := newJob(rule)
		made := all.MakeParams
		all.MakeParams = func(ctx context.Context, r apply.Resolved) (apply.MadeParams, error) {
			m, err := made(ctx, r)
			m.Needs = nil
			return m, err
		}
		want := runJob(t, all)
		for i, change := range []func(*apply.Job){
			func(*apply.Job) {},
			func(j *apply.Job) { j.Controls.WindowWidth, j.Controls.WindowHeight = 0, 0 },
			func(j *apply.Job) { j.Controls.WindowWidth, j.Controls.WindowHeight = 192, 128 },
			func(j *apply.Job) { j.Concurrency = apply.Concurrency{Workers: 2, On: subprocess.New(nil)} },
			func(j *apply.Job) {
				j.Concurrency = apply.Concurrency{Workers: 2, On: subprocess.New(nil), Reading: apply.ReadByWorkers}
			},
		} {
			if i > 2 && rule != zonal.ByCoverage {
				continue
			}
			job := newJob(rule)
			change(job)
			r, err := apply.Start(t.Context(), *job)
			if err != nil {
				t.Fatal(err)
			}
			res, err := r.Wait()
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "out.csv"))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("rule %d, run %d: the table differs: %v\n%s\n%s", rule, i, err, got, want)
			}
			p := res.Plan
			if res.Blocks != p.ComputedBlocks() || i != 1 && p.SkippedBlocks < 7 || i == 0 && res.Pixels > 150_000 {
				t.Errorf("rule %d, run %d: %d blocks, %d pixels, %d of %d skipped", rule, i, res.Blocks, res.Pixels,
					p.SkippedBlocks, p.Blocks.Count())
			}
			states := map[apply.BlockState]int{}
			for _, s := range r.Status().Blocks {
				states[s]++
			}
			if states[apply.BlockDone] != res.Blocks || states[apply.BlockSkipped] != p.SkippedBlocks {
				t.Errorf("rule %d, run %d: %v blocks by state", rule, i, states)
			}
		}
	}
}

func TestResumeWithSkippedBlocks(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 600, 500)
	if err := os.WriteFile(filepath.Join(dir, "z.geojson"), []byte(sparseZones), 0o600); err != nil {
		t.Fatal(err)
	}
	newJob := func() *apply.Job {
		job, err := testJob(dir, "mean,median,count", zonal.ByCoverage)
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	want := runJob(t, newJob())
	if killed, out, err := proctest.New("zonal", dir).KillAt("apply.block-done", 7).Start(t).Wait(); !killed {
		t.Fatalf("no child was killed: %v: %s", err, out)
	}
	left, err := apply.ListSpools(t.Context(), dir)
	plan, perr := apply.MakePlan(t.Context(), *newJob())
	if err != nil || perr != nil || len(left) != 1 || left[0].Blocks < 7 || left[0].Total != plan.ComputedBlocks() {
		t.Fatalf("%+v: %v, %v", left, err, perr)
	}
	if plan.Replaced == nil || plan.Replaced.Total != plan.ComputedBlocks() || plan.Replaced.Changes != nil {
		t.Errorf("replaced: %+v", plan.Replaced)
	}
	job := newJob()
	job.Resume = true
	res, err := apply.Run(t.Context(), *job)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "out.csv"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the table of the resumed run differs: %v", err)
	}
	if res.Resumed < 7 || res.Blocks != plan.ComputedBlocks() {
		t.Errorf("%d of %d blocks resumed, %d planned", res.Resumed, res.Blocks, plan.ComputedBlocks())
	}
}

func TestPixelsNeedAllBlocks(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 100, 100)
	makeZones(t, dir, 5)
	job, err := testJob(dir, "mean", zonal.ByCentre)
	if err != nil {
		t.Fatal(err)
	}
	job.Outputs["pixels"] = apply.Output{Path: filepath.Join(dir, "p.tif")}
	if _, err := apply.Run(t.Context(), *job); err == nil || !strings.Contains(err.Error(), "skips blocks") {
		t.Error(err)
	}
}
