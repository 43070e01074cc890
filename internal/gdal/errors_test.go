package gdal

import (
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
	need(t, "HFA", "ENVI")
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal"}, `
import sys, json
from osgeo import gdal
gdal.UseExceptions()
dir = json.load(sys.stdin)
d = gdal.GetDriverByName("MEM").Create("", 300, 200, 2, gdal.GDT_UInt16)
for name, kind in (("a.img", "HFA"), ("a.dat", "ENVI")):
    gdal.Translate(dir + "/" + name, d, format=kind)
print("{}")
`, dir, nil)
	for _, name := range []string{"a.img", "a.dat"} {
		path := filepath.Join(dir, name)
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		for _, size := range []int64{st.Size() - st.Size()/20, st.Size() / 2, st.Size() / 4} {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			_, err = Open(path, nil)
			if err == nil || strings.Contains(err.Error(), "0x") || strings.Contains(err.Error(), "Success") {
				t.Errorf("%s with %d of %d bytes: %v", name, size, st.Size(), err)
			}
		}
	}
}
