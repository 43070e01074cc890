package geotiff

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCOGFaultOfGDALFiles(t *testing.T) {
	src := filepath.Join(sharedData(t), "landsat8/l8_B8.tif")
	if _, err := exec.LookPath("gdal_translate"); err != nil {
		t.Skip("gdal_translate is missing: apt-get install gdal-bin")
	}
	dir := t.TempDir()
	gdal := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for _, c := range []struct {
		name    string
		fault   string
		options []string
		addo    bool
	}{
		{"cog", "", []string{"-of", "COG", "-co", "BLOCKSIZE=256"}, false},
		{"cog with a mask", "", []string{"-of", "COG", "-a_nodata", "none", "-mask", "1"}, false},
		{"strips", "strips", nil, false},
		{"tiles without overviews", "no overviews", []string{"-co", "TILED=YES"}, false},
		{"overviews added later", "after those of a larger one", []string{"-co", "TILED=YES"}, true},
	} {
		out := filepath.Join(dir, c.name+".tif")
		gdal(append(append([]string{"gdal_translate", "-q", "--config", "GDAL_TIFF_INTERNAL_MASK", "YES"},
			c.options...), src, out)...)
		if c.addo {
			gdal("gdaladdo", "-q", out, "2", "4")
		}
		f, err := Open(out)
		if err != nil {
			t.Fatal(err)
		}
		fault, err := f.COGFault()
		if cerr := f.Close(); cerr != nil {
			t.Error(cerr)
		}
		if err != nil || c.fault == "" && fault != "" || !strings.Contains(fault, c.fault) {
			t.Errorf("%s: fault %q, error %v, expected %q", c.name, fault, err, c.fault)
		}
	}
}

func FuzzCOGFault(f *testing.F) {
	f.Add([]byte("II*\x00\x08\x00\x00\x00\x00\x00\x08\x00\x00\x00"))
	f.Add([]byte("MM\x00*\x00\x00\x00\x08\x00\x02\x01\x00\x00\x03\x00\x00\x00\x01\x00\x05\x00\x00\x01\x11\x00\x04\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, at, err := newContainer(bytes.NewReader(data), int64(len(data)), "x.tif")
		if err != nil {
			return
		}
		if dirs, err := c.readChain(at); err == nil {
			for _, d := range dirs {
				if im, err := newCOGImage(d); err == nil {
					cogFault([]cogImage{im, im}, im.at)
				}
			}
		}
		_, _ = c.cogStart()
	})
}
