package apply

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// OGR opens a directory, for example of shapefiles, as a source of layers. The files are inside it,
// not next to it.
func TestVectorDirectory(t *testing.T) {
	vectors := vectorFiles(t)
	dir := t.TempDir()
	for _, suffix := range []string{".shp", ".shx", ".dbf", ".prj"} {
		if err := os.WriteFile(filepath.Join(dir, "fields"+suffix),
			fileBytes(t, filepath.Join(vectors, "fields"+suffix)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	job := vectorJob(t.TempDir(), vectorGrid(), map[string]Vector{"v": {Path: dir, Attribute: "class"}})
	mustRun(t, job)
	want := rasterized(t, filepath.Join(vectors, "fields.shp"), vectorGrid(), "Int32", 0, "-a", "class")
	if !bytes.Equal(raw(t, job.Outputs["v"].Path), want) {
		t.Error("the pixels are not gdal_rasterize's")
	}
	job = vectorJob(t.TempDir(), vectorGrid(), map[string]Vector{"v": {Path: dir, Attribute: "class"}})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	interrupt(t, job)
	job.Resume = true
	mustRun(t, job)
	if !bytes.Equal(raw(t, job.Outputs["v"].Path), want) {
		t.Error("the pixels of the run that goes on are not gdal_rasterize's")
	}
}
