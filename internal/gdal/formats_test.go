package gdal

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/internal/rastertest"
	"leat/ndarray"
	"leat/raster"

	_ "embed"
)

//go:embed testdata/formats.py
var formatsScript string

// formatFile is what GDAL's Python binding reads from a file.
type formatFile struct {
	Name, Path, Raw, Type, Driver, Code, WKT, Stored string
	Shape                                            []int
	Transform                                        []float64
	Nodata                                           *string
	Block                                            [2]int
	Overviews                                        [][2]int
	Color                                            []string
	Masked                                           bool
}

func (f formatFile) pixels(t testing.TB) *ndarray.Array {
	t.Helper()
	typ, err := ndarray.ParseDType(f.Type)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Raw)
	if err != nil {
		t.Fatal(err)
	}
	return ndarray.FromBytes(typ, b, f.Shape...)
}

func TestFormatsReadAsGDALReads(t *testing.T) {
	need(t)
	var files []formatFile
	pytest.Run(t, []string{"numpy", "osgeo.gdal"}, formatsScript, map[string]string{"dir": t.TempDir()}, &files)
	if len(files) < 20 {
		t.Errorf("Python wrote %d files only", len(files))
	}
	for _, f := range files {
		t.Run(f.Name, func(t *testing.T) {
			want := f.pixels(t)
			if f.Name == "signed.tif" {
				want.Type = ndarray.Int8 // Python returns them as bytes
			}
			s := open(t, f.Path)
			compareInfo(t, s, f, want.Type)
			if f.Masked {
				compareMask(t, s, f.Raw+".mask")
			}
			rastertest.Run(t, func(t testing.TB) raster.Source {
				s, err := Open(f.Path, nil)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}, want)
		})
	}
}

func compareInfo(t *testing.T, s *File, f formatFile, typ ndarray.DType) {
	t.Helper()
	i := s.Info()
	if i.Driver != f.Driver || i.TileWidth != f.Block[0] || i.TileHeight != f.Block[1] {
		t.Errorf("driver %s with blocks of %dx%d, GDAL says %s, %v", i.Driver, i.TileWidth, i.TileHeight, f.Driver,
			f.Block)
	}
	if i.Grid.HasTransform != (f.Transform != nil) || f.Transform != nil && !slices.Equal(i.Grid.Transform[:],
		f.Transform) {
		t.Errorf("the transform is %v, GDAL's %v", i.Grid.Transform, f.Transform)
	}
	if f.Code != "" && i.Grid.CRS.Code != f.Code || i.Grid.CRS.WKT != f.WKT {
		t.Errorf("the system is %v %s, GDAL's %s %s", i.Grid.CRS, i.Grid.CRS.WKT, f.Code, f.WKT)
	}
	if i.Grid.PixelIsPoint != (f.Name == "point.tif") {
		t.Errorf("pixels are points: %v", i.Grid.PixelIsPoint)
	}
	if (i.Mask == raster.MaskDataset) != f.Masked {
		t.Errorf("mask: %v, GDAL says %v", i.Mask, f.Masked)
	}
	var sizes [][2]int
	for _, o := range i.Overviews {
		sizes = append(sizes, [2]int{o.Width, o.Height})
	}
	if !slices.Equal(sizes, f.Overviews) {
		t.Errorf("overviews %v, GDAL has %v", sizes, f.Overviews)
	}
	for n, b := range i.Bands {
		if string(b.Color) != f.Color[n] && !(f.Color[n] == "undefined" || f.Color[n] == "grayscale") {
			t.Errorf("band %d is %s, GDAL says %s", n+1, b.Color, f.Color[n])
		}
		if stored := map[string]string{"CInt16": "int16 complex"}[f.Stored]; stored != "" && b.Stored != stored {
			t.Errorf("band %d is stored as %q, not %q", n+1, b.Stored, stored)
		}
	}
	b := i.Bands[0]
	if f.Nodata == nil {
		if b.Nodata != nil || b.NodataText != "" {
			t.Errorf("nodata %v, GDAL has none", b.NodataText)
		}
		return
	}
	v, err := strconv.ParseFloat(*f.Nodata, 64)
	if b.Nodata == nil || err != nil || b.Nodata.Type != typ {
		t.Fatalf("nodata %v (%q) of %v, GDAL's %s", b.Nodata, b.NodataText, typ, *f.Nodata)
	}
	if got := b.Nodata.Float64(); got != v && got != float64(float32(v)) && !(math.IsNaN(got) && math.IsNaN(v)) {
		t.Errorf("nodata %v, GDAL's %v", got, v)
	}
}

func compareMask(t *testing.T, s *File, path string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if err := s.ReadMask(t.Context(), s.Info().Grid.Window(), got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Error("the mask differs from GDAL's")
	}
}

func TestBandMasksCombine(t *testing.T) {
	need(t, "GTiff", "VRT")
	pixels := ndarray.FromSlice([]uint8{0, 1, 2, 3, 0, 9, 2, 3}, 2, 1, 4) // bands 0 1 2 3 and 0 9 2 3
	spec := &Spec{Driver: "GTiff", Grid: utm(4, 1), Bands: 2, Type: ndarray.Uint8,
		Metadata: map[string]string{"NODATA_VALUES": "2 2"}}
	path := write(t, "values.tif", spec, pixels)
	mask := make([]byte, 4)
	f := open(t, path)
	if err := f.ReadMask(t.Context(), f.Info().Grid.Window(),
		mask); err != nil || f.Info().Mask != raster.MaskDataset || !slices.Equal(mask, []byte{255, 255, 0, 255}) {
		t.Errorf("one value for each band: %v, mask %v (%v)", f.Info().Mask, mask, err)
	}
	spec.Metadata = nil
	write := func(name string, values ...uint8) string {
		return write(t, name, &Spec{Driver: "GTiff", Grid: utm(4, 1), Bands: len(values) / 4, Type: ndarray.Uint8},
			ndarray.FromSlice(values, len(values)/4, 1, 4))
	}
	source, first, second := write("pixels.tif", pixels.Data...), write("first.tif", 0, 255, 255, 255),
		write("second.tif", 255, 255, 255, 0)
	band := func(n int, mask string) string {
		from := func(path string, n int) string {
			return fmt.Sprintf(`<SimpleSource><SourceFilename>%s</SourceFilename><SourceBand>%d</SourceBand></SimpleSource>`, path, n)
		}
		return fmt.Sprintf(`<VRTRasterBand dataType="Byte" band="%d">%s<MaskBand><VRTRasterBand dataType="Byte">%s</VRTRasterBand></MaskBand></VRTRasterBand>`, n, from(source, n), from(mask, 1))
	}
	vrt := filepath.Join(t.TempDir(), "a.vrt")
	writeFile(t, vrt, `<VRTDataset rasterXSize="4" rasterYSize="1">`+band(1, first)+band(2, second)+`</VRTDataset>`)
	f = open(t, vrt)
	if err := f.ReadMask(t.Context(), f.Info().Grid.Window(),
		mask); err != nil || f.Info().Mask != raster.MaskDataset || !slices.Equal(mask, []byte{0, 255, 255, 0}) {
		t.Errorf("a mask for each band: %v, mask %v (%v)", f.Info().Mask, mask, err)
	}
}

func TestFilesNativeDriverRefuses(t *testing.T) {
	need(t)
	root := sharedData(t)
	var names []string
	for _, pattern := range []string{"rasterio/*.tif", "rasterio/*.vrt", "sentinel2/*.jp2"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	const script = `import json, sys
from osgeo import gdal
gdal.UseExceptions()
out = {}
for n in json.load(sys.stdin):
    try:
        ds = gdal.Open(n)
        out[n] = [ds.GetRasterBand(b + 1).Checksum() for b in range(ds.RasterCount)]
    except RuntimeError as e:
        out[n] = None
json.dump(out, sys.stdout)`
	var sums map[string][]int
	pytest.Run(t, []string{"osgeo.gdal"}, script, names, &sums)
	refused := 0
	for _, name := range names {
		f := open(t, name)
		i := f.Info()
		if strings.Contains(i.Compression, "jpeg") {
			refused++
		}
		for n, b := range i.Bands {
			a := ndarray.New(b.Type, 1, i.Grid.Height, i.Grid.Width)
			err := f.Read(t.Context(), []int{n + 1}, i.Grid.Window(), a)
			if sums[name] == nil {
				if err == nil && n == 0 {
					t.Errorf("%s: GDAL can't read it, and there is no error", name)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := checksum(a); got != sums[name][n] {
				t.Errorf("%s: the checksum of band %d is %d, GDAL's %d", name, n+1, got, sums[name][n])
			}
		}
	}
	if refused < 3 {
		t.Errorf("%d JPEG files only", refused)
	}
}

// checksum computes GDALChecksumImage of a band that is not complex.
func checksum(a *ndarray.Array) int {
	primes := []int{7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43}
	sum, at := 0, 0
	add := func(v int64) {
		sum = int((int64(sum) + v%int64(primes[at%11])) & 0xffff)
		at++
	}
	switch a.Type {
	case ndarray.Float32:
		for _, v := range ndarray.Slice[float32](a) {
			add(clamped(float64(v)))
		}
	case ndarray.Float64:
		for _, v := range ndarray.Slice[float64](a) {
			add(clamped(v))
		}
	case ndarray.Uint8:
		for _, v := range ndarray.Slice[uint8](a) {
			add(int64(v))
		}
	case ndarray.Uint16:
		for _, v := range ndarray.Slice[uint16](a) {
			add(int64(v))
		}
	case ndarray.Int16:
		for _, v := range ndarray.Slice[int16](a) {
			add(int64(v))
		}
	}
	return sum
}

func clamped(v float64) int64 {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return math.MinInt32
	}
	v = math.Floor(v + 0.5)
	if math.Abs(v) > math.MaxInt32 {
		return int64(math.Copysign(math.MaxInt32, v))
	}
	return int64(v)
}
