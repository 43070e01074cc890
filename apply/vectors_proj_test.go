package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/gdal"
)

// TestSpoolHasPROJOfVectors checks that a run can be resumed only with the PROJ that transformed
// its vectors, if their CRS is not the grid's.
func TestSpoolHasPROJOfVectors(t *testing.T) {
	dir := vectorFiles(t)
	version, err := gdal.PROJVersion()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		want bool
	}{{"degrees.geojson", true}, {"fields.shp", false}} {
		out := t.TempDir()
		job := vectorJob(out, vectorGrid(), map[string]Vector{"v": {Path: filepath.Join(dir, c.file)}})
		job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		afterBlocks(t, 3, func() { cancel(stop) })
		if _, err := Run(ctx, job); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		spool := filepath.Join(out, ".v.tif.leat-part")
		text, err := os.ReadFile(spool)
		if err != nil {
			t.Fatal(err)
		}
		field := `"proj":"` + version + `"`
		if got := strings.Contains(string(text), field); got != c.want {
			t.Errorf("%s: PROJ in the spool: %v", c.file, got)
		}
		job.Resume = true
		if _, err := Run(t.Context(), job); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
	}
}
