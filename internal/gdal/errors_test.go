package gdal

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/pytest"
)

func TestMessageText(t *testing.T) {
	for text, want := range map[string]string{
		"VSIFReadL(0x7f4450145850,6*4) @ 1928257 failed in HFAEntry(). Success":         "VSIFReadL(the file,6*4) @ 1928257 failed in HFAEntry()",
		"Read of 16 bytes at\n0:0006e485 on 0x55d0c8a0b2c0 failed. Success":             "Read of 16 bytes at 0:0006e485 on the file failed",
		"VSIFReadL(0x1e4f3500,6*4) @ 332692 failed in HFAEntry(). Success":              "VSIFReadL(the file,6*4) @ 332692 failed in HFAEntry()",
		"Read of 16 bytes at 0:0006e485 on 0x1e4f3500 failed, flags 0x12345678":         "Read of 16 bytes at 0:0006e485 on the file failed, flags 0x12345678",
		"tag 0x8000 of 0x0123456789 at 0xffff, a.tif: Success":                          "tag 0x8000 of 0x0123456789 at 0xffff, a.tif: Success",
		"Corrupt block 0x7f4450145850_1 of 0x7f445014585012345678: no such file. Wrong": "Corrupt block 0x7f4450145850_1 of 0x7f445014585012345678: no such file. Wrong",
	} {
		if got := messageText(text); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// Files that end early are errors, whose messages are the same in each process.
func TestCutFiles(t *testing.T) {
	need(t, "HFA", "ENVI", "netCDF")
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal"}, `
import sys, json
from osgeo import gdal
gdal.UseExceptions()
dir = json.load(sys.stdin)
d = gdal.GetDriverByName("MEM").Create("", 300, 200, 2, gdal.GDT_Int16)
d.SetGeoTransform([0, 10, 0, 9000, 0, -10])
d.GetRasterBand(1).Fill(1)
d.GetRasterBand(2).Fill(2)
for name, kind, options in (("a.img", "HFA", []), ("a.dat", "ENVI", []), ("a.nc", "netCDF", ["FORMAT=NC"]),
        ("b.nc", "netCDF", ["FORMAT=NC2"]), ("c.nc", "netCDF", ["FORMAT=NC4"])):
    gdal.Translate(dir + "/" + name, d, format=kind, creationOptions=options)
gdal.BuildVRT(dir + "/a.vrt", 'NETCDF:"' + dir + '/b.nc":Band1').FlushCache()
print("{}")
`, dir, nil)
	part := func(name string) string { return fmt.Sprintf("NETCDF:%q:Band1", filepath.Join(dir, name)) }
	for _, c := range []struct{ name, open string }{{"a.img", ""}, {"a.dat", ""}, {"a.nc", part("a.nc")},
		{"c.nc", part("c.nc")}, {"b.nc", filepath.Join(dir, "a.vrt")}} {
		name, path := c.name, filepath.Join(dir, c.name)
		open := cmp.Or(c.open, path)
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(open, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		for _, size := range []int64{st.Size() - st.Size()/20, st.Size() / 2, st.Size() / 4} {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			_, err = Open(open, nil)
			if err == nil || strings.Contains(err.Error(), "0x") || strings.Contains(err.Error(), "Success") {
				t.Errorf("%s with %d of %d bytes: %v", name, size, st.Size(), err)
			}
		}
	}
}
