//go:build !nocloud

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"leat/internal/gdal"
	"leat/internal/worker/batchtest"
)

// TestZonalOnBatch compares a table by workers of AWS Batch with that of a run without workers.
func TestZonalOnBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts jobs of the stand-in for AWS Batch")
	}
	if err := gdal.Available(); err != nil {
		t.Skip("needs GDAL: ", err)
	}
	leat, err := exec.LookPath("leat")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), leat, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	const polygons = `{"type": "FeatureCollection", "features": [
{"type": "Feature", "properties": {"id": 2}, "geometry": {"type": "Polygon",
 "coordinates": [[[0.9, 43.6], [1.5, 43.5], [1.4, 43.9], [1.0, 44.0], [0.9, 43.6]]]}},
{"type": "Feature", "properties": {"id": 1}, "geometry": {"type": "Polygon",
 "coordinates": [[[0.7, 43.4], [1.2, 43.4], [1.2, 44.1], [0.7, 44.1], [0.7, 43.4]]]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "z.geojson"), []byte(polygons), 0o600); err != nil {
		t.Fatal(err)
	}
	run("demo", "--size=400", ".")
	args := []string{"zonal", "-q", "-i", "red=B04.tif", "-i", "nir=B08.tif", "-e", "ndvi=(nir - red) / (nir + red)", "-z",
		"z.geojson", "--by", "id", "--weights", "coverage", "--window", "32", "--stat", "count,mean,std,median,mode"}
	run(append(args, "-o", "local.csv")...)
	want, err := os.ReadFile(filepath.Join(dir, "local.csv"))
	if err != nil || bytes.Count(want, []byte("\n")) != 3 {
		t.Fatalf("%q, %v", want, err)
	}
	s := batchtest.New(t, batchtest.Settings{})
	run(append(args, "-o", "batch.csv", "--on", "awsbatch", "--workers", "3", "--listen", "127.0.0.1",
		"--aws-queue", batchtest.Queue, "--aws-definition", batchtest.Definition,
		"--aws-secret", "secretsmanager:"+batchtest.Secret, "--aws-program", leat, "--aws-endpoint", s.URL)...)
	if got, err := os.ReadFile(filepath.Join(dir, "batch.csv")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("another table:\n%s\nwant\n%s\n%v", got, want, err)
	}
	if left := s.Left(); len(left) > 0 {
		t.Errorf("the jobs %v are left", left)
	}
}
