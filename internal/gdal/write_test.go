package gdal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"

	_ "embed"

	"github.com/google/go-cmp/cmp"
)

//go:embed testdata/describe.py
var describeScript string

// described is what GDAL's Python binding reports of a file.
type described struct {
	Driver, Dtype, Code, Name string
	Transform                 []float64
	Items, Structure          map[string]string
	Bands                     []struct {
		Type, Name, Unit, Color string
		Nodata                  *string
		Scale, Offset           *float64
		Colors                  [][]int
		Items                   map[string]string
		Overviews               [][2]int
		Histogram               *struct {
			Low, High float64
			Counts    []uint64
		}
	}
	raw []byte // pixels
}

// pythonReads reads a file in Python and compares the pixels.
func pythonReads(t *testing.T, path string, pixels *ndarray.Array) described {
	t.Helper()
	d := pythonReadsAll(t, []string{path})[0]
	if pixels != nil && !bytes.Equal(d.raw, pixels.Data) {
		t.Errorf("%s: Python reads other pixels", filepath.Base(path))
	}
	return d
}

// pythonReadsAll reads files in one Python process.
func pythonReadsAll(t *testing.T, paths []string) []described {
	t.Helper()
	var out []described
	pytest.Run(t, []string{"osgeo.gdal"}, describeScript, paths, &out)
	for i, path := range paths {
		b, err := os.ReadFile(path + ".raw")
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(path + ".raw")
		out[i].raw = b
	}
	return out
}

func scalar(t testing.TB, text string, typ ndarray.DType) *ndarray.Scalar {
	t.Helper()
	s, err := ndarray.ParseScalar(text, typ)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestWriteFormats(t *testing.T) {
	need(t)
	type written struct {
		name, driver string
		options      []string
		typ          ndarray.DType
		bands        int
		nodata       string
		lossy        bool

		spec   *Spec
		pixels *ndarray.Array
		path   string
		python described
	}
	list := []*written{
		{name: "a.img", driver: "HFA", options: []string{"COMPRESSED=YES"},
			typ: ndarray.Uint16, bands: 3, nodata: "7"},
		{name: "b.img", driver: "HFA", typ: ndarray.Float32, bands: 1, nodata: "-9999"},
		{name: "c.img", driver: "HFA", typ: ndarray.Int8, bands: 1},
		{name: "a.envi", driver: "ENVI", options: []string{"INTERLEAVE=BIP"}, typ: ndarray.Complex64, bands: 2},
		{name: "a.dat", driver: "ENVI", typ: ndarray.Int16, bands: 2, nodata: "-1"},
		{name: "a.tif", driver: "GTiff", options: []string{"COMPRESS=LZW", "tiled=yes"},
			typ: ndarray.Int64, bands: 2, nodata: "-9007199254740993"},
		{name: "b.tif", driver: "GTiff", typ: ndarray.Uint64, bands: 1, nodata: "18446744073709551615"},
		{name: "c.tif", driver: "GTiff", options: []string{"COMPRESS=LERC"},
			typ: ndarray.Float64, bands: 1, nodata: "nan"},
		{name: "cog.tif", driver: "COG", options: []string{"COMPRESS=DEFLATE", "LEVEL=1"},
			typ: ndarray.Uint8, bands: 3},
		{name: "a.nc", driver: "netCDF", typ: ndarray.Float32, bands: 1, nodata: "-9999"},
		{name: "a.zarr", driver: "Zarr", options: []string{"COMPRESS=NONE"}, typ: ndarray.Uint16, bands: 1},
		{name: "a.asc", driver: "AAIGrid", typ: ndarray.Int32, bands: 1, nodata: "-9999"},
		{name: "a.png", driver: "PNG", options: []string{"ZLEVEL=1"}, typ: ndarray.Uint16, bands: 2},
		{name: "a.jpg", driver: "JPEG", options: []string{"QUALITY=90"}, typ: ndarray.Uint8, bands: 3, lossy: true},
		{name: "a.jp2", driver: "JP2OpenJPEG", options: []string{"REVERSIBLE=YES", "QUALITY=100"},
			typ: ndarray.Uint16, bands: 1},
		{name: "a.gpkg", driver: "GPKG", options: []string{"TILE_FORMAT=PNG"}, typ: ndarray.Uint8, bands: 4},
		{name: "a.sdat", driver: "SAGA", typ: ndarray.Float32, bands: 1, nodata: "-9999"},
		{name: "a.bil", driver: "EHdr", typ: ndarray.Uint8, bands: 1},
		{name: "a.mrf", driver: "MRF", typ: ndarray.Uint8, bands: 3},
		{name: "a.map", driver: "PCRaster", typ: ndarray.Float32, bands: 1, nodata: "-3.4028235e+38"},
		{name: "a.pdf", driver: "PDF", typ: ndarray.Uint8, bands: 3, lossy: true},
	}
	var paths []string
	var all []*written
	for _, c := range list {
		if _, err := DriverByName(c.driver); err != nil {
			continue
		}
		c.spec = &Spec{Driver: c.driver, Options: c.options, Grid: utm(300, 256), Bands: c.bands, Type: c.typ}
		if c.nodata != "" {
			c.spec.Nodata = scalar(t, c.nodata, c.typ)
		}
		c.pixels = noise(c.typ, c.bands, 256, 300)
		if c.driver == "GPKG" {
			for i := range 256 * 300 {
				c.pixels.Data[3*256*300+i] = 255
			}
		}
		c.path = write(t, c.name, c.spec, c.pixels)
		paths, all = append(paths, c.path), append(all, c)
	}
	for i, d := range pythonReadsAll(t, paths) {
		all[i].python = d
	}
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			need(t, c.driver)
			d, spec, pixels := c.python, c.spec, c.pixels
			if !c.lossy && !bytes.Equal(d.raw, pixels.Data) {
				t.Error("Python reads other pixels")
			}
			if d.Driver != c.driver && c.driver != "COG" || d.Code != "32631" && !strings.Contains(d.Name,
				"UTM") || !slices.Equal(d.Transform, spec.Grid.Transform[:]) {
				t.Errorf("Python reads driver %s, system %s %s, transform %v", d.Driver, d.Code, d.Name, d.Transform)
			}
			f := open(t, c.path)
			b := f.Info().Bands[0]
			if (b.Nodata == nil) != (spec.Nodata == nil) || spec.Nodata != nil &&
				b.Nodata.String() != spec.Nodata.String() {
				t.Errorf("nodata %v, written as %v", b.NodataText, spec.Nodata)
			}
			if got := readAll(t, f); !c.lossy && (!bytes.Equal(got.Data, pixels.Data) || got.Type != c.typ) {
				t.Error("other pixels are read back")
			}
			checkClean(t, c.path)
		})
	}
}

// checkClean checks that nothing else is left next to an output.
func checkClean(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s stays", e.Name())
		}
	}
}

func TestWriteMetadata(t *testing.T) {
	need(t, "GTiff")
	table := []raster.RGBA{{R: 1, G: 2, B: 3, A: 255}, {R: 4, G: 5, B: 6, A: 255}, {R: 7, G: 8, B: 9, A: 0}}
	spec := &Spec{Driver: "GTiff", Grid: utm(40, 30), Bands: 1, Type: ndarray.Uint8,
		Nodata: scalar(t, "2", ndarray.Uint8),
		BandInfo: []raster.Band{{Name: "classes", Colors: table, Metadata: map[string]string{"KEY": "a value"},
			Unit: "m", Scale: 0.5, Offset: 3}},
		Metadata: map[string]string{"TITLE": "a raster", "B": "ü"},
		Domains:  map[string]map[string]string{"MINE": {"X": "1"}}}
	spec.Grid.PixelIsPoint = true
	pixels := ndarray.New(ndarray.Uint8, 1, 30, 40)
	names := []string{"", "water", "wood & <x>"}
	spec.BandInfo[0].Categories = names
	path := write(t, "a.tif", spec, pixels)
	d := pythonReads(t, path, pixels)
	b := d.Bands[0]
	if b.Name != "classes" || b.Unit != "m" || *b.Scale != 0.5 || *b.Offset != 3 || b.Items["KEY"] != "a value" ||
		b.Color != "palette" || *b.Nodata != "2.0" {
		t.Errorf("the band is %+v", b)
	}
	if len(b.Colors) != 256 || !slices.Equal(b.Colors[1], []int{4, 5, 6, 255}) {
		t.Errorf("the colour table begins %v", b.Colors[:2])
	}
	if d.Items["TITLE"] != "a raster" || d.Items["B"] != "ü" || d.Items["AREA_OR_POINT"] != "Point" ||
		!slices.Equal(d.Transform, spec.Grid.Transform[:]) {
		t.Errorf("items %v, transform %v", d.Items, d.Transform)
	}
	i := open(t, path).Info()
	if !i.Grid.PixelIsPoint || i.Bands[0].Color != raster.ColorPalette || i.Bands[0].Scale != 0.5 ||
		i.Bands[0].Name != "classes" || i.Domains["MINE"]["X"] != "1" || !slices.Equal(i.Bands[0].Colors[:3], table) ||
		!slices.Equal(i.Bands[0].Categories, names) {
		t.Errorf("read back: %+v", i)
	}
	spec = &Spec{Driver: "GTiff", Grid: raster.Grid{Width: 4, Height: 4}, Bands: 4, Type: ndarray.Uint8,
		BandInfo: []raster.Band{{Color: raster.ColorRed}, {Color: raster.ColorGreen}, {Color: raster.ColorBlue},
			{Color: raster.ColorAlpha}}}
	i = open(t, write(t, "b.tif", spec, ndarray.New(ndarray.Uint8, 4, 4, 4))).Info()
	if i.AlphaBand() != 4 || i.Mask != raster.MaskAlpha || i.Grid.HasTransform || !i.Grid.CRS.IsZero() {
		t.Errorf("a picture with alpha: %+v", i)
	}
}

func TestWriteControlPointsAndRPC(t *testing.T) {
	need(t, "GTiff")
	points := &raster.GCPs{CRS: raster.CRS{Code: "EPSG:4326"}, Points: []raster.GCP{
		{ID: "1", X: 12.5, Y: 47.25, Z: 3}, {ID: "2", Pixel: 8, X: 13, Y: 47.25},
		{ID: "3", Pixel: 8, Line: 6.5, X: 13, Y: 46}}}
	rpc := &raster.RPC{LineOff: 3, SampOff: 4, LatOff: 47, LongOff: 13, HeightOff: 500, LineScale: 3, SampScale: 4,
		LatScale: 1, LongScale: 1, HeightScale: 500}
	rpc.LineNum[2], rpc.LineDen[0], rpc.SampNum[1], rpc.SampDen[0] = -1, 1, 1, 1
	spec := &Spec{Driver: "GTiff", Grid: raster.Grid{Width: 8, Height: 7, GCPs: points, RPC: rpc}, Bands: 1,
		Type: ndarray.Uint8}
	g := open(t, write(t, "a.tif", spec, ndarray.New(ndarray.Uint8, 1, 7, 8))).Info().Grid
	if g.GCPs == nil || g.GCPs.CRS.Code != "EPSG:4326" || !slices.Equal(g.GCPs.Points, points.Points) {
		t.Errorf("points read back: %+v", g.GCPs)
	}
	if g.RPC == nil || g.RPC.LineNum != rpc.LineNum || g.RPC.HeightOff != 500 {
		t.Errorf("coefficients read back: %+v", g.RPC)
	}
}

func TestWriteOverviewsAndStatistics(t *testing.T) {
	need(t, "HFA", "AAIGrid")
	for _, c := range []struct{ name, driver string }{{"a.tif", "GTiff"}, {"a.img", "HFA"}, {"a.png", "PNG"}} {
		t.Run(c.name, func(t *testing.T) {
			need(t, c.driver)
			pixels := noise(ndarray.Uint8, 1, 256, 256)
			path := filepath.Join(t.TempDir(), c.name)
			w, err := Create(path, &Spec{Driver: c.driver, Grid: utm(256, 256), Bands: 1, Type: ndarray.Uint8})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Discard()
			if x, y := w.BlockSize(); x < 1 || y < 1 {
				t.Errorf("blocks of %dx%d", x, y)
			}
			if err := writeAll(t, w, pixels); err != nil {
				t.Fatal(err)
			}
			if err := w.BuildOverviews(t.Context(), "AVERAGE", []int{2, 4}); err != nil {
				t.Fatal(err)
			}
			s, valid, err := w.ComputeStatistics(t.Context(), 1)
			if err != nil || !valid {
				t.Fatal(valid, err)
			}
			var sum float64
			counts := make([]uint64, 256)
			for _, v := range pixels.Data {
				sum += float64(v)
				counts[v]++
			}
			if s.Lowest != 0 || s.Highest != 255 || s.Mean < sum/65536-1e-9 || s.Mean > sum/65536+1e-9 ||
				s.Deviation <= 0 {
				t.Errorf("statistics %+v, the mean is %v", s, sum/65536)
			}
			if err := w.SetStatistics(t.Context(), 1, Statistics{0, 255, 100, 50}); err != nil {
				t.Fatal(err)
			}
			if err := w.SetHistogram(t.Context(), 1, Histogram{-0.5, 255.5, counts}); err != nil {
				t.Fatal(err)
			}
			err = w.WriteBlock(t.Context(), raster.Window{Width: 256, Height: 256}, pixels)
			holds(t, err, "no more pixels")
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			d := pythonReads(t, path, pixels)
			b := d.Bands[0]
			if !slices.Equal(b.Overviews, [][2]int{{128, 128}, {64, 64}}) || b.Items["STATISTICS_MEAN"] != "100" {
				t.Errorf("overviews %v, items %v", b.Overviews, b.Items)
			}
			if b.Histogram == nil || !slices.Equal(b.Histogram.Counts, counts) {
				t.Errorf("the histogram is %v", b.Histogram)
			}
			f := open(t, path)
			h, err := f.Histogram(1)
			if err != nil || h == nil || !slices.Equal(h.Counts, counts) || h.Lowest != -0.5 {
				t.Errorf("the histogram is read as %v (%v)", h, err)
			}
			if len(f.Overviews()) != 2 {
				t.Errorf("overviews %v", f.Overviews())
			}
		})
	}
}

func TestNoStatisticsWithoutValidPixels(t *testing.T) {
	need(t, "HFA")
	path := filepath.Join(t.TempDir(), "a.img")
	w, err := Create(path, &Spec{Driver: "HFA", Grid: utm(10, 10), Bands: 1, Type: ndarray.Uint8,
		Nodata: scalar(t, "0", ndarray.Uint8)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if s, valid, err := w.ComputeStatistics(t.Context(), 1); valid || err != nil || s != (Statistics{}) {
		t.Errorf("%v %v %v", s, valid, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnsupportedOutputIsRefusedFirst(t *testing.T) {
	need(t, "HFA", "PNG", "JPEG", "VRT", "AAIGrid")
	dir := t.TempDir()
	good := Spec{Driver: "HFA", Grid: utm(10, 10), Bands: 1, Type: ndarray.Uint8}
	for _, c := range []struct {
		name   string
		change func(s *Spec)
		words  []string
	}{
		{"unknown option", func(s *Spec) { s.Options = []string{"COMPRES=YES"} },
			[]string{"HFA has no creation option COMPRES", "COMPRESSED"}},
		{"wrong boolean", func(s *Spec) { s.Options = []string{"COMPRESSED=PERHAPS"} },
			[]string{"COMPRESSED", `"PERHAPS"`, "YES or NO"}},
		{"wrong value", func(s *Spec) { s.Driver, s.Options = "GTiff", []string{"COMPRESS=ZIP"} },
			[]string{"COMPRESS", "DEFLATE"}},
		{"wrong number", func(s *Spec) {
			s.Driver, s.Options = "JPEG", []string{"THUMBNAIL_WIDTH=9999", "THUMBNAIL_HEIGHT=1", "QUALITY=a"}
		}, []string{"at most 512", "32 and more", "QUALITY", "whole number"}},
		{"no value", func(s *Spec) { s.Options = []string{"COMPRESSED"} }, []string{"KEY=VALUE"}},
		{"unknown format", func(s *Spec) { s.Driver = "NOFORMAT" }, []string{`no format "NOFORMAT"`}},
		{"format without pixels", func(s *Spec) { s.Driver = "VRT" }, []string{"can't write", "VRT"}},
		{"type", func(s *Spec) { s.Driver, s.Type = "PNG", ndarray.Float32 },
			[]string{"PNG can't hold pixels of type float32", "uint16"}},
		{"float16", func(s *Spec) { s.Type = ndarray.Float16 }, []string{"float16"}},
		{"no type", func(s *Spec) { s.Type = 0 }, []string{"no type"}},
		{"nodata of another type", func(s *Spec) { s.Nodata = scalar(t, "1", ndarray.Uint16) },
			[]string{"nodata", "uint16"}},
		{"no pixels", func(s *Spec) { s.Grid.Width = 0 }, []string{"0 x 10"}},
		{"no bands", func(s *Spec) { s.Bands = 0 }, []string{"0 bands"}},
		{"descriptions", func(s *Spec) { s.BandInfo = make([]raster.Band, 2) }, []string{"2 bands"}},
		{"colours", func(s *Spec) { s.Type, s.BandInfo = ndarray.Float32, []raster.Band{{Colors: []raster.RGBA{{}}}} },
			[]string{"colour table"}},
		{"NUL", func(s *Spec) { s.Metadata = map[string]string{"A": "b\x00c"} }, []string{"NUL"}},
		{"several at once", func(s *Spec) { s.Bands, s.Type, s.Options = 0, 0, []string{"X=1"} },
			[]string{"0 bands", "no type", "option X"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good
			c.change(&s)
			w, err := Create(filepath.Join(dir, "a.img"), &s)
			if err == nil {
				w.Discard()
			}
			holds(t, err, append(c.words, "a.img")...)
			if entries, _ := os.ReadDir(dir); len(entries) != 0 {
				t.Errorf("%v lies there", entries)
			}
		})
	}
	for path, word := range map[string]string{"/vsimem/a.img": "plain files", "s3://b/a.img": "plain files",
		filepath.Join(dir, "none", "a.img"): "no such file"} {
		_, err := Create(path, &good)
		holds(t, err, path, word)
	}
	// Facts that only GDAL reports.
	s := good
	s.Driver, s.Bands = "AAIGrid", 2
	w, err := Create(filepath.Join(dir, "a.asc"), &s)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Close(t.Context())
	holds(t, err, "a.asc", "GDAL can't write", "band")
	for format, word := range map[string]string{"GSBG": "of 3; use another format",
		"R": "float64 instead of float32"} {
		s = good
		s.Driver, s.Type, s.Bands = format, ndarray.Float32, 1
		if format == "GSBG" {
			s.Bands = 3
		}
		w, err := Create(filepath.Join(dir, "a.rda"), &s)
		if err == nil {
			err = w.Close(t.Context())
		}
		holds(t, err, "a.rda", word)
	}
	s = good
	s.Grid.CRS = raster.CRS{WKT: "no text of a system"}
	_, err = Create(filepath.Join(dir, "a.img"), &s)
	holds(t, err, "a.img", "coordinate reference system")
	s.Grid.CRS = raster.CRS{Code: "/etc/passwd"}
	_, err = Create(filepath.Join(dir, "a.img"), &s)
	holds(t, err, "AUTHORITY:NUMBER")
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("%v lies there", entries)
	}
}

func TestOutputIsAtomic(t *testing.T) {
	need(t, "HFA")
	dir := t.TempDir()
	path := filepath.Join(dir, "a.img")
	old := map[string]string{"a.img": "old", "a.img.aux.xml": "stale", "a.img.ovr": "stale"}
	put := func() {
		for name, text := range old {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got[e.Name()] = string(b[:min(len(b), 20)])
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	put()
	spec := &Spec{Driver: "HFA", Grid: utm(300, 256), Bands: 1, Type: ndarray.Uint8}
	pixels := noise(ndarray.Uint8, 1, 256, 300)
	begin := func() *Writer {
		t.Helper()
		w, err := Create(path, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(t, w, pixels); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := begin()
	if _, err := Create(path, spec); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Discard(); err != nil {
		t.Fatal(err)
	}
	look(old)
	if err := w.Close(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closing a discarded writer: %v", err)
	}
	w = begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Close: %v", err)
	}
	look(old)
	// A dead writer's directory is replaced.
	dead := filepath.Join(dir, ".a.img.leat-gdal")
	if err := os.MkdirAll(filepath.Join(dead, "out", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	w = begin()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(map[string]string{"a.img": "EHFA_HEADER_TAG\x00\x14\x00\x00\x00"})
	if err := w.Close(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closing twice: %v", err)
	}
}

func TestReplaceDirectory(t *testing.T) {
	need(t, "Zarr")
	dir := t.TempDir()
	path := filepath.Join(dir, "a.zarr")
	if err := os.MkdirAll(filepath.Join(path, "precious"), 0o700); err != nil {
		t.Fatal(err)
	}
	spec := &Spec{Driver: "Zarr", Grid: utm(20, 20), Bands: 1, Type: ndarray.Uint8}
	_, err := Create(path, spec)
	holds(t, err, path, "is a directory", "not replaced")
	if _, err := os.Stat(filepath.Join(path, "precious")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		pixels := noise(ndarray.Uint8, 1, 20, 20)
		pixels.Data[0] = byte(n)
		w, err := Create(path, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(t, w, pixels); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, open(t, path)); !bytes.Equal(got.Data, pixels.Data) {
			t.Errorf("run %d: other pixels", n)
		}
		checkClean(t, path)
	}
}

func TestContextEndsCopy(t *testing.T) {
	need(t, "AAIGrid")
	path := filepath.Join(t.TempDir(), "a.asc")
	w, err := Create(path, &Spec{Driver: "AAIGrid", Grid: utm(3000, 2000), Bands: 1, Type: ndarray.Float32})
	if err != nil {
		t.Fatal(err)
	}
	ctx := &endsWhenAsked{Context: t.Context(), left: 3}
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if ctx.left > 0 {
		t.Error("GDAL never asked")
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unfinished output: %v", err)
	}
	checkClean(t, path)
}

// endsWhenAsked is a context that ends after a number of checks.
type endsWhenAsked struct {
	context.Context
	left int
}

func (c *endsWhenAsked) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestInvalidBlocksAreRefused(t *testing.T) {
	need(t, "GTiff")
	w, err := Create(filepath.Join(t.TempDir(), "a.tif"),
		&Spec{Driver: "GTiff", Grid: utm(10, 10), Bands: 2, Type: ndarray.Uint16})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	short := ndarray.New(ndarray.Uint16, 2, 10, 10)
	short.Data = short.Data[:100]
	for name, c := range map[string]struct {
		w raster.Window
		a *ndarray.Array
	}{
		"nothing":      {raster.Window{Width: 1, Height: 1}, nil},
		"type":         {raster.Window{Width: 1, Height: 1}, ndarray.New(ndarray.Uint8, 2, 1, 1)},
		"bands":        {raster.Window{Width: 1, Height: 1}, ndarray.New(ndarray.Uint16, 1, 1, 1)},
		"outside":      {raster.Window{Col: 10, Width: 1, Height: 1}, ndarray.New(ndarray.Uint16, 2, 1, 1)},
		"short memory": {raster.Window{Width: 10, Height: 10}, short},
	} {
		if err := w.WriteBlock(t.Context(), c.w, c.a); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := w.WriteBlock(t.Context(), raster.Window{}, ndarray.New(ndarray.Uint16, 2, 0, 0)); err != nil {
		t.Errorf("an empty window: %v", err)
	}
	if err := w.BuildOverviews(t.Context(), "AVERAGE", []int{1}); err == nil {
		t.Error("an overview of factor 1: no error")
	}
	if _, _, err := w.ComputeStatistics(t.Context(), 3); err == nil {
		t.Error("statistics of band 3 of 2: no error")
	}
	if err := w.SetHistogram(t.Context(), 1, Histogram{}); err == nil {
		t.Error("an empty histogram: no error")
	}
}

func TestFormatCapabilities(t *testing.T) {
	need(t, "HFA", "PNG")
	list, err := Drivers()
	if err != nil || len(list) < 50 {
		t.Fatal(len(list), err)
	}
	for name, want := range map[string]string{"HFA": "true true true [img]", "PNG": "true true false [png]",
		"VRT": "true false false [vrt]"} {
		d, err := DriverByName(strings.ToLower(name))
		if got := fmt.Sprint(d.Read, d.Write, d.Direct, d.Extensions); err != nil || d.Name != name || got != want {
			t.Errorf("%s: %s, not %s (%v)", name, got, want, err)
		}
	}
	d, _ := DriverByName("PNG")
	if !slices.Equal(d.Types, []ndarray.DType{ndarray.Uint8, ndarray.Uint16}) {
		t.Errorf("PNG holds %v", d.Types)
	}
	if o := findOption(d.RasterOptions(), "zlevel"); o == nil || o.Type != "int" || o.Default == "" {
		t.Errorf("its option ZLEVEL is %+v", o)
	}
}
