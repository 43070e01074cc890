package geotiff

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/ndarray"
	"leat/raster"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// goldenFile is GDAL's description of one file, written by testdata/golden.py.
type goldenFile struct {
	Size        [2]int
	Transform   *[6]float64
	Metadata    map[string]string
	Compression string
	Interleave  string
	EPSG        *int
	Error       string
	Mask        *int
	Bands       []struct {
		Type, Name, Unit, Color string
		Checksum                int
		Nodata                  *string
		Scale, Offset           *float64
		Colors                  [][4]int
		Metadata                map[string]string
	}
	Overviews []struct {
		Size      [2]int
		Checksums []int
		Mask      *int
	}
}

// sharedData returns the directory of real rasters, or skips the test.
func sharedData(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	shared := filepath.Join(dir, "../shared/data")
	if _, err := os.Stat(shared); err != nil {
		t.Skipf("skipped: the real rasters are not at %s", shared)
	}
	return shared
}

func readGolden(t testing.TB) map[string]goldenFile {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Files map[string]goldenFile }
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Files
}

// readBand returns all pixels of one band.
func readBand(t testing.TB, s raster.Source, band int) *ndarray.Array {
	t.Helper()
	g := s.Info().Grid
	a := ndarray.New(s.Info().Bands[band-1].Type, 1, g.Height, g.Width)
	if err := s.Read(context.Background(), []int{band}, g.Window(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// gdalChecksum computes GDAL's GDALChecksumImage.
func gdalChecksum(a *ndarray.Array) int {
	primes := [11]int32{7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43}
	sum, k := 0, 0
	add := func(v int32) {
		sum = (sum + int(v%primes[k])) & 0xffff
		k = (k + 1) % len(primes)
	}
	float := func(v float64) {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			add(math.MinInt32)
		default:
			add(int32(math.Floor(max(-2147483647, min(2147483647, v+0.5)))))
		}
	}
	switch a.Type {
	case ndarray.Uint8:
		for _, v := range ndarray.Slice[uint8](a) {
			add(int32(v))
		}
	case ndarray.Int8:
		for _, v := range ndarray.Slice[int8](a) {
			add(int32(uint8(v))) // GDAL 3.6 treats signed bytes as unsigned
		}
	case ndarray.Uint16:
		for _, v := range ndarray.Slice[uint16](a) {
			add(int32(v))
		}
	case ndarray.Int16:
		for _, v := range ndarray.Slice[int16](a) {
			add(int32(v))
		}
	case ndarray.Uint32:
		for _, v := range ndarray.Slice[uint32](a) {
			add(int32(min(v, math.MaxInt32)))
		}
	case ndarray.Int32:
		for _, v := range ndarray.Slice[int32](a) {
			add(v)
		}
	case ndarray.Float32:
		for _, v := range ndarray.Slice[float32](a) {
			float(float64(v))
		}
	case ndarray.Float64:
		for _, v := range ndarray.Slice[float64](a) {
			float(v)
		}
	case ndarray.Complex64:
		for _, v := range ndarray.Slice[complex64](a) {
			float(float64(real(v)))
			float(float64(imag(v)))
		}
	default:
		panic("gdalChecksum: " + a.Type.String())
	}
	return sum
}

func maskChecksum(t *testing.T, f *File) int {
	t.Helper()
	g := f.Info().Grid
	a := ndarray.New(ndarray.Uint8, g.Height, g.Width)
	if err := f.ReadMask(t.Context(), g.Window(), a.Data); err != nil {
		t.Fatal(err)
	}
	return gdalChecksum(a)
}

func TestReadRealFiles(t *testing.T) {
	root := sharedData(t)
	golden := readGolden(t)
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			compareInfo(t, f.Info(), want)
			if strings.Contains(want.Compression, "JPEG") {
				err := f.Read(t.Context(), []int{1}, f.Info().Grid.Window(),
					ndarray.New(ndarray.Uint8, 1, f.im.height, f.im.width))
				for _, err := range []error{err, f.CheckReadable()} {
					if !errors.Is(err, raster.ErrUnsupported) || !strings.Contains(err.Error(),
						"jpeg") || !strings.Contains(err.Error(), "gdal_translate") {
						t.Errorf("a JPEG file is refused with: %v", err)
					}
				}
				return
			}
			for i, b := range want.Bands {
				if got := gdalChecksum(readBand(t, f, i+1)); got != b.Checksum {
					t.Errorf("band %d: checksum %d, GDAL's is %d", i+1, got, b.Checksum)
				}
			}
			if want.Mask != nil {
				if got := maskChecksum(t, f); got != *want.Mask {
					t.Errorf("mask: checksum %d, GDAL's is %d", got, *want.Mask)
				}
			}
			for i, o := range want.Overviews {
				s, err := f.Overview(i)
				if err != nil {
					t.Fatal(err)
				}
				if g := s.Info().Grid; g.Width != o.Size[0] || g.Height != o.Size[1] {
					t.Errorf("overview %d is %dx%d, GDAL's is %v", i, g.Width, g.Height, o.Size)
				}
				for b, sum := range o.Checksums {
					if got := gdalChecksum(readBand(t, s, b+1)); got != sum {
						t.Errorf("overview %d band %d: checksum %d, GDAL's is %d", i, b+1, got, sum)
					}
				}
			}
		})
	}
}

// compareInfo compares Info with GDAL's description.
func compareInfo(t *testing.T, got *raster.Info, want goldenFile) {
	t.Helper()
	g := got.Grid
	if g.Width != want.Size[0] || g.Height != want.Size[1] {
		t.Errorf("size %d x %d, GDAL's is %v", g.Width, g.Height, want.Size)
	}
	if (want.Transform != nil) != g.HasTransform || want.Transform != nil &&
		raster.Transform(*want.Transform) != g.Transform {
		t.Errorf("transform %v %v, GDAL's is %v", g.HasTransform, g.Transform, want.Transform)
	}
	if want.EPSG != nil && *want.EPSG != 0 && g.CRS.Code != "EPSG:"+strconv.Itoa(*want.EPSG) {
		t.Errorf("system %q, GDAL's is EPSG:%d", g.CRS.Code, *want.EPSG)
	}
	if want.EPSG == nil != g.CRS.IsZero() {
		t.Errorf("system %v, GDAL's is %v", g.CRS, want.EPSG)
	}
	if got.Interleave != want.Interleave {
		t.Errorf("interleave %s, GDAL's is %s", got.Interleave, want.Interleave)
	}
	if want.Error == "" && want.Mask != nil != (got.Mask == raster.MaskDataset) {
		t.Errorf("mask %v, GDAL's is %v", got.Mask, want.Mask)
	}
	if len(got.Overviews) != len(want.Overviews) && want.Error == "" {
		t.Errorf("overviews %v, GDAL's are %v", got.Overviews, want.Overviews)
	}
	numeric := []string{"TIFFTAG_XRESOLUTION", "TIFFTAG_YRESOLUTION", "TIFFTAG_RESOLUTIONUNIT",
		"TIFFTAG_MINSAMPLEVALUE", "TIFFTAG_MAXSAMPLEVALUE"}
	for _, k := range numeric {
		delete(want.Metadata, k)
	}
	if d := cmp.Diff(want.Metadata, got.Metadata, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("metadata (-GDAL +leat):\n%s", d)
	}
	for i, w := range want.Bands {
		b := got.Bands[i]
		if typ, err := ndarray.ParseDType(w.Type); err != nil || typ != b.Type &&
			!(b.Type == ndarray.Int8 && typ == ndarray.Uint8) {
			t.Errorf("band %d: type %v, GDAL's is %v", i+1, b.Type, w.Type)
		}
		if w.Nodata != nil && b.Nodata == nil { // no pixel of the type can have the value
			v, _ := strconv.ParseFloat(*w.Nodata, 64)
			if _, err := ndarray.ScalarFromFloat(v, b.Type); err == nil || b.NodataText == "" {
				t.Errorf("band %d: no nodata, GDAL's is %v", i+1, *w.Nodata)
			}
		} else if w.Nodata == nil && b.Nodata != nil {
			t.Errorf("band %d: nodata %v, GDAL has none", i+1, b.Nodata)
		} else if w.Nodata != nil {
			v, err := strconv.ParseFloat(*w.Nodata, 64)
			if n := b.Nodata.Float64(); err != nil || n != v && !(math.IsNaN(n) && math.IsNaN(v)) {
				t.Errorf("band %d: nodata %v, GDAL's is %v", i+1, b.Nodata, *w.Nodata)
			}
		}
		if b.Name != w.Name || b.Unit != w.Unit || string(b.Color) != w.Color {
			t.Errorf("band %d: name %q unit %q color %q, GDAL's are %q %q %q", i+1, b.Name, b.Unit, b.Color, w.Name,
				w.Unit, w.Color)
		}
		if w.Scale != nil && *w.Scale != b.Scale || w.Offset != nil && *w.Offset != b.Offset {
			t.Errorf("band %d: scale %v offset %v, GDAL's are %v %v", i+1, b.Scale, b.Offset, *w.Scale, *w.Offset)
		}
		var table [][4]int
		for _, c := range b.Colors {
			table = append(table, [4]int{int(c.R), int(c.G), int(c.B), int(c.A)})
		}
		if d := cmp.Diff(w.Colors, table, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("band %d: colour table (-GDAL +leat):\n%s", i+1, d)
		}
		if d := cmp.Diff(w.Metadata, b.Metadata, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("band %d: metadata (-GDAL +leat):\n%s", i+1, d)
		}
	}
}
