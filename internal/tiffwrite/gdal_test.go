package tiffwrite

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

// expected is the description of a file that testdata/check_written.py reads.
type expected struct {
	Path       string
	Type       string
	Bands      int
	Sizes      [][2]int // width and height of each level
	Pixels     []string // paths of the raw pixels of each level
	Tile       [2]int
	Interleave string
	Codec      string
	BigTIFF    bool
	Transform  []float64
	EPSG       int
	AreaOrPt   string
	Nodata     string
	Names      []string
	Colors     []string
	Scales     []float64
	Offsets    []float64
	Units      []string
	BandItems  []map[string]string
	Items      map[string]string
	Domains    map[string]map[string]string
	Table      [][4]int
}

// describe writes the picture and returns what readers must find.
func (p *picture) describe(t *testing.T, dir, name string, seed uint64) expected {
	path := filepath.Join(dir, name+".tif")
	p.write(t, path, seed)
	s := &p.spec
	e := expected{Path: path, Type: s.Type.String(), Bands: s.Bands, Tile: [2]int{s.TileWidth, s.TileHeight},
		Interleave: "BAND",
		Codec:      strings.ToUpper(s.Coding.Compression), Items: s.Metadata, Domains: s.Domains}
	if s.PixelInterleave && s.Bands > 1 {
		e.Interleave = "PIXEL"
	}
	e.BigTIFF = s.BigTIFF
	for level := range p.pixels {
		z := s.Size(level)
		e.Sizes = append(e.Sizes, [2]int{z.Width, z.Height})
		raw := filepath.Join(dir, fmt.Sprintf("%s.%d.raw", name, level))
		if err := os.WriteFile(raw, p.pixels[level], 0o666); err != nil {
			t.Fatal(err)
		}
		e.Pixels = append(e.Pixels, raw)
	}
	if s.Grid.HasTransform {
		e.Transform = s.Grid.Transform[:]
	}
	fmt.Sscanf(s.Grid.CRS.Code, "EPSG:%d", &e.EPSG)
	e.AreaOrPt = "Area"
	if s.Grid.PixelIsPoint {
		e.AreaOrPt = "Point"
	}
	if s.Nodata != nil {
		e.Nodata = s.Nodata.String()
		if s.Type.IsFloat() {
			e.Nodata = fmt.Sprintf("%.17g", s.Nodata.Float64())
		}
	}
	for _, b := range s.BandInfo {
		e.Names = append(e.Names, b.Name)
		e.Colors = append(e.Colors, string(b.Color))
		e.Scales = append(e.Scales, b.Scale)
		e.Offsets = append(e.Offsets, b.Offset)
		e.Units = append(e.Units, b.Unit)
		e.BandItems = append(e.BandItems, b.Metadata)
		for _, c := range b.Colors {
			e.Table = append(e.Table, [4]int{int(c.R), int(c.G), int(c.B), int(c.A)})
		}
	}
	return e
}

// checkWritten reads the files with GDAL and rasterio and compares them.
func checkWritten(t *testing.T, dir string, files []expected) {
	t.Helper()
	python := pytest.Python(t, "numpy", "osgeo.gdal", "rasterio")
	list, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "expected.json")
	if err := os.WriteFile(name, list, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, filepath.Join("testdata", "check_written.py"), name).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d files checked", len(files))) {
		t.Fatalf("%s\n%v", out, err)
	}
}

func TestGDALReadsWrittenFiles(t *testing.T) {
	dir := t.TempDir()
	var files []expected
	n := 0
	for typ := ndarray.Uint8; typ <= ndarray.Complex128; typ++ {
		for _, c := range compressionNames() {
			for _, coding := range Candidates(typ, c) {
				n++
				spec := FileSpec{Width: 150 + n%13, Height: 131 + n%7, Bands: 1 + n%4, Type: typ, TileWidth: 64,
					TileHeight: 48, Coding: coding,
					PixelInterleave: n%3 == 0, BigTIFF: n%5 == 0}
				if n%2 == 0 {
					spec.Levels = []raster.Size{{Width: (spec.Width + 1) / 2, Height: (spec.Height + 1) / 2},
						{Width: (spec.Width + 3) / 4, Height: (spec.Height + 3) / 4}}
				}
				files = append(files, newPicture(spec, uint64(n)).describe(t, dir,
					fmt.Sprintf("%03d_%v_%v_p%d", n, typ, c, coding.Predictor), uint64(n)))
			}
		}
	}
	checkWritten(t, dir, files)
}

func TestGDALReadsPlanes(t *testing.T) {
	dir := t.TempDir()
	var files []expected
	for n, spec := range layouts() {
		files = append(files, newPicture(spec, uint64(n)).describe(t, dir, fmt.Sprintf("layout%02d", n), uint64(n)))
	}
	checkWritten(t, dir, files)
}

func TestGDALReadsMetadata(t *testing.T) {
	utm := raster.Grid{HasTransform: true, Transform: raster.Transform{300000.5, 30, 0, 4200000.25, 0, -30},
		CRS: raster.CRS{Code: "EPSG:32618"}}
	point := utm
	point.PixelIsPoint = true
	point.Transform = raster.Transform{0.1, 1.0 / 3600, 0, 45.7, 0, -1.0 / 3600}
	point.CRS.Code = "EPSG:4326"
	rotated := utm
	rotated.Transform = raster.Transform{1000.1, 8, 1.5, 2000.2, 1.25, -7}
	rotatedPoint := rotated
	rotatedPoint.PixelIsPoint = true
	southUp := utm
	southUp.Transform = raster.Transform{10, 1, 0, 20, 0, 1}
	noCRS := raster.Grid{HasTransform: true, Transform: raster.Transform{5, 2, 0, 6, 0, -2}}
	grids := map[string]raster.Grid{"utm": utm, "point": point, "rotated": rotated, "rotatedpoint": rotatedPoint,
		"southup": southUp, "nocrs": noCRS, "none": {}}
	utm.CRS.Keys = &raster.GeoKeys{Directory: []uint16{1, 1, 0, 5, 1024, 0, 1, 1, 1025, 0, 1, 1, 1026, 34737, 22, 0,
		2054, 0, 1, 9102, 3072, 0, 1, 32618}, ASCII: "WGS 84 / UTM zone 18N|"}
	grids["keys"] = utm
	noCRS.CRS.Keys = &raster.GeoKeys{Directory: []uint16{1, 1, 0, 1, 1025, 0, 1, 1}} // as other programs write it
	grids["typealone"] = noCRS

	dir := t.TempDir()
	var files []expected
	base := FileSpec{Width: 70, Height: 50, Bands: 1, Type: ndarray.Uint8, TileWidth: 32, TileHeight: 32,
		Coding: defaultCoding(ndarray.Uint8, Deflate)}
	for name, g := range grids {
		spec := base
		spec.Grid = g
		files = append(files, newPicture(spec, 1).describe(t, dir, "grid_"+name, 1))
	}
	nodata := []ndarray.Scalar{ndarray.ScalarOf(uint8(255)), ndarray.ScalarOf(int16(-32768)),
		ndarray.ScalarOf(uint64(math.MaxUint64)),
		ndarray.ScalarOf(int64(math.MinInt64 + 1)), ndarray.ScalarOf(float32(math.NaN())),
		ndarray.ScalarOf(float32(-math.MaxFloat32)), ndarray.ScalarOf(float32(0.1)),
		ndarray.ScalarOf(-math.MaxFloat64), ndarray.ScalarOf(0.1), ndarray.ScalarOf(math.Inf(-1)),
		ndarray.ScalarOf(-9999.0)}
	for i, v := range nodata {
		spec := base
		spec.Type, spec.Nodata = v.Type, &v
		spec.Coding = defaultCoding(v.Type, Zstd)
		spec.Levels = []raster.Size{{Width: 35, Height: 25}}
		files = append(files, newPicture(spec, 1).describe(t, dir, fmt.Sprintf("nodata_%d", i), 1))
	}
	spec := base
	spec.BandInfo = []raster.Band{{Color: raster.ColorPalette, Name: "class",
		Colors:   []raster.RGBA{{A: 255}, {R: 255, G: 1, B: 128, A: 255}, {R: 7, G: 200, B: 3, A: 255}},
		Metadata: map[string]string{"LAYER_TYPE": "thematic"}}}
	files = append(files, newPicture(spec, 2).describe(t, dir, "palette", 2))

	spec = base
	spec.Bands, spec.PixelInterleave = 4, true
	spec.BandInfo = []raster.Band{{Color: raster.ColorRed}, {Color: raster.ColorGreen}, {Color: raster.ColorBlue},
		{Color: raster.ColorAlpha}}
	files = append(files, newPicture(spec, 3).describe(t, dir, "rgba", 3))

	spec.Bands, spec.Type, spec.PixelInterleave = 3, ndarray.Int16, false
	spec.Coding = defaultCoding(ndarray.Int16, Deflate)
	spec.BandInfo = []raster.Band{
		{Name: `a<b & "c" > é &amp; d`, Color: raster.ColorBlue, Scale: 0.1, Offset: 1.0 / 3, Unit: "W/m²",
			Metadata: map[string]string{
				"STATISTICS_MINIMUM": "-12.25", "STATISTICS_MAXIMUM": "77", "STATISTICS_MEAN": "3.5",
				"STATISTICS_STDDEV": "1.25", "STATISTICS_VALID_PERCENT": "93.1"}},
		{Name: "second", Color: raster.ColorUndefined, Scale: 1, Metadata: map[string]string{"K&\"<": "<v>&amp;"}},
		{Color: raster.ColorAlpha, Offset: 2}}
	spec.Metadata = map[string]string{"TIFFTAG_LIKE": "a\nb", "Z": "ü"}
	spec.Domains = map[string]map[string]string{"MINE": {"a": "1", "b": "<2>"}}
	files = append(files, newPicture(spec, 4).describe(t, dir, "described", 4))
	checkWritten(t, dir, files)
}
