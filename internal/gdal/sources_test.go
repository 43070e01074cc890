package gdal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"leat/ndarray"
)

func TestVRTSourceFiles(t *testing.T) {
	need(t, "GTiff", "VRT", "netCDF")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.MkdirAll(at("in"), 0o700); err != nil {
		t.Fatal(err)
	}
	move := func(driver, name string) []byte {
		from := write(t, filepath.Base(name), &Spec{Driver: driver, Grid: utm(8, 8), Bands: 1, Type: ndarray.Uint8},
			noise(ndarray.Uint8, 1, 8, 8))
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, at(name), string(b))
		return b
	}
	tiff := move("GTiff", "in/a.tif")
	writeFile(t, at("in/a.tif.msk"), string(tiff))
	move("GTiff", "b.tif")
	move("netCDF", "c.nc")
	writeFile(t, at("d.zip"), string(stored("inner.tif", tiff)))
	vrt := func(name string, source ...string) {
		text := `<VRTDataset rasterXSize="8" rasterYSize="8"><VRTRasterBand dataType="Byte" band="1">`
		for _, s := range source {
			text += "<SimpleSource>" + s + "<SourceBand>1</SourceBand></SimpleSource>"
		}
		writeFile(t, at(name), text+"</VRTRasterBand></VRTDataset>")
	}
	relative := func(name string) string { return `<SourceFilename relativeToVRT="1">` + name + "</SourceFilename>" }
	plain := func(name string) string { return `<SourceFilename relativeToVRT="0">` + name + "</SourceFilename>" }
	inline := `&lt;VRTDataset rasterXSize="8" rasterYSize="8"&gt;&lt;VRTRasterBand dataType="Byte" band="1"&gt;&lt;SimpleSource&gt;&lt;SourceFilename&gt;` + at("b.tif") +
		`&lt;/SourceFilename&gt;&lt;SourceBand&gt;1&lt;/SourceBand&gt;&lt;/SimpleSource&gt;&lt;/VRTRasterBand&gt;&lt;/VRTDataset&gt;`
	vrt("in/inner.vrt", relative("a.tif"))
	vrt("in/loop.vrt", relative("loop.vrt"), relative("a.tif"))
	for name, c := range map[string]struct {
		sources []string
		want    []string
	}{
		"one": {[]string{relative("b.tif")}, []string{"b.tif"}},
		"in a VRT": {[]string{relative("in/inner.vrt"), plain(at("b.tif"))},
			[]string{"b.tif", "in/a.tif", "in/a.tif.msk", "in/inner.vrt"}},
		"in itself":        {[]string{relative("in/loop.vrt")}, []string{"in/a.tif", "in/a.tif.msk", "in/loop.vrt"}},
		"a text":           {[]string{plain(inline)}, []string{"b.tif"}},
		"a part of a file": {[]string{plain(fmt.Sprintf("NETCDF:&quot;%s&quot;:Band1", at("c.nc")))}, []string{"c.nc"}},
		"in an archive":    {[]string{plain("/vsizip/" + at("d.zip") + "/inner.tif")}, []string{"d.zip"}},
		"in braces":        {[]string{plain("/vsizip/{" + at("d.zip") + "}/inner.tif")}, []string{"d.zip"}},
		"no file":          {[]string{plain("/vsimem/nothing.tif")}, []string{"/vsimem/nothing.tif"}},
	} {
		t.Run(name, func(t *testing.T) {
			vrt("top.vrt", c.sources...)
			got, err := open(t, at("top.vrt")).FileNames()
			if err != nil {
				t.Fatal(err)
			}
			want := []string{at("top.vrt")}
			for _, w := range c.want {
				if !filepath.IsAbs(w) {
					w = at(w)
				}
				want = append(want, w)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the files are %q, expected %q", got, want)
			}
		})
	}
}
