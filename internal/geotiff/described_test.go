package geotiff

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
	"leat/internal/scalarvalue"
	"leat/raster"
)

func TestInfoEqualsGDAL(t *testing.T) {
	python := pytest.Python(t, "numpy", "osgeo.gdal_array", "osgeo.osr")
	dir := t.TempDir()
	if out, err := exec.Command(python, "testdata/described.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(python, "testdata/golden.py", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Files map[string]goldenFile }
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	for name, want := range doc.Files {
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			compareInfo(t, f.Info(), want)
			for i, b := range want.Bands {
				if typ := f.Info().Bands[i].Type; typ.IsInteger() && typ.Size() == 8 {
					continue // GDAL's checksum does not support 64-bit integers
				}
				if got := gdalChecksum(readBand(t, f, i+1)); got != b.Checksum {
					t.Errorf("band %d: checksum %d, GDAL's is %d", i+1, got, b.Checksum)
				}
			}
		})
	}
	if len(doc.Files) < 50 {
		t.Errorf("%d files", len(doc.Files))
	}
	for name, want := range map[string]raster.CRS{
		"geo0.tif":    {Code: "EPSG:32631", Name: "WGS 84 / UTM zone 31N"},
		"geo2.tif":    {Code: "EPSG:4326", Name: "WGS 84"},
		"pam_geo.tif": {Code: "EPSG:32632", Name: "WGS 84 / UTM zone 32N"},
	} {
		f, err := Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if c := f.Info().Grid.CRS; c.Code != want.Code || c.Name != want.Name {
			t.Errorf("%s: system %q %q, not %q %q", name, c.Code, c.Name, want.Code, want.Name)
		}
		f.Close()
	}
	f, err := Open(filepath.Join(dir, "int64.tif"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := f.Info().Bands[0].Nodata; n == nil || scalarvalue.As[int64](*n) != -9223372036854775807 {
		t.Errorf("a nodata value beyond 2^53: %v", n)
	}
}
