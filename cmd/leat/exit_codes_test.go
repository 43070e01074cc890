package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply"
	"leat/internal/gdal"
	"leat/ndarray"
	"leat/raster"
)

// fileMistakes are command lines that are right by themselves, with the exit code that the files
// lead to. "apply A" is with the input a and the output x, "apply V" with the vector v too.
var fileMistakes = []struct {
	line string
	code int
	says string
}{
	// What was asked for can't be done with these files.
	{"apply A -e a --bands a=5", exitUsage, "has 1 band, not a band 5"},
	{"apply A -e a[5]", exitUsage, "index 5 is out of range"},
	{"apply A -e a --input-nodata a=1,2", exitUsage, "2 nodata values for 1 band"},
	{"apply A -e a --input-nodata a=99999", exitUsage, "expected a value of its type"},
	{"apply A -e a --count 3", exitUsage, "gives 1 band, not 3"},
	{"apply A -e a --names b,c", exitUsage, "2 band names for 1 band"},
	{"apply A -e a --srcwin 500,0,10,10", exitUsage, "does not lie inside the grid"},
	{"apply A -e a --bbox 0,0,10,10", exitUsage, "has no pixel of the inputs"},
	{"apply A -e a --extent away.tif", exitUsage, "has no pixel of the inputs"},
	{"apply A -e a+b -i b=half.tif", exitUsage, "not on one grid"},
	{"apply A -e a+b -i b=utm33.tif", exitUsage, "not on one grid"},
	{"apply A -e a+b -i b=none.tif", exitUsage, "not on one grid"},
	{"apply A -e median(a) -i a=half.tif", exitUsage, "not on one grid"},
	{"apply A -e a+b -i b=next.tif", exitUsage, "no pixel in common"},
	{"apply A -e a+b -i b=none.tif --reference a", exitUsage, "not georeferenced"},
	{"apply -i a=none.tif -o x=x.tif -e a --pixel-size 30 --crs a.tif", exitUsage, "not georeferenced"},
	{"apply A -e a --stac x.json", exitUsage, "no input says when it was taken"},
	{"apply -i a=a.tif -i a=a.tif -o x=x.tif -e trend(a,times) --times a=2020-01-01", exitUsage, "1 time for 2 files"},
	{"apply -i a=a.tif -o x=a.tif -e a", exitUsage, "is also the input a"},
	{"apply -i a=a.tif -o x=folder -e a", exitUsage, "is a directory"},
	{"apply V -e a+v --layer v=nosuch", exitUsage, "no layer nosuch"},
	{"apply V -e a+v --burn v=nosuch", exitUsage, "no attribute nosuch"},
	{"apply V -e a+v --burn v=t", exitUsage, "not a number"},
	{"apply V -e a+v --where v=nosuch=3", exitUsage, "can't apply the condition"},
	{"apply V -e a+v --burn v=300 --vector-type v=uint8", exitUsage, "uint8"},
	{"zonal -i v=a.tif -z v.geojson -o t.csv --by nosuch", exitUsage, "no attribute nosuch"},
	{"zonal -i v=a.tif -z v.geojson -o t.csv --zones-layer nosuch", exitUsage, "no layer nosuch"},
	{"zonal -i v=none.tif -z v.geojson -o t.csv", exitUsage, "no georeference"},
	{"zonal -i v=a.tif -z float.tif -o t.csv", exitUsage, "expected integers"},
	{"cache get three.cache 3", exitUsage, "has 3 slots"},
	{"cache put three.cache 3 a.tif", exitUsage, "has 3 slots"},
	// A text file that stands for values is part of the command line.
	{"apply A -e a --color-table text.txt", exitUsage, "text.txt, line 1"},
	{"apply A -e recode(a,@text.txt)", exitUsage, "text.txt"},
	{"apply -i a=a.tif -i a=a.tif -o x=x.tif -e trend(a,times) --times a=text.txt", exitUsage, "text.txt, line 1"},
	{"apply A -e @text.txt", exitUsage, "expression"},
	// A file is missing, or not what it should be.
	{"apply -i a=nope.tif -o x=x.tif -e a", exitFailed, "no such file"},
	{"apply -i a=text.txt -o x=x.tif -e a", exitFailed, "not a TIFF"},
	{"apply -i a=empty.tif -o x=x.tif -e a", exitFailed, "is empty"},
	{"apply -i a=cut.tif -o x=x.tif -e a", exitFailed, "cut"},
	{"apply -i a=folder -o x=x.tif -e a", exitFailed, "is a directory"},
	{"apply -i a=nope*.tif -o x=x.tif -e median(a)", exitFailed, "no file matches"},
	{"apply -i a=@nope.txt -o x=x.tif -e median(a)", exitFailed, "no such file"},
	{"apply A -e a --grid nope.tif", exitFailed, "no such file"},
	{"apply A -e a --grid text.txt", exitFailed, "not a TIFF"},
	{"apply A -e a --extent nope.tif", exitFailed, "no such file"},
	{"apply A -e a --color-table nope.txt", exitFailed, "no such file"},
	{"apply A -e recode(a,@nope.txt)", exitFailed, "no such file"},
	{"apply A -e @nope.txt", exitFailed, "no such file"},
	{"apply -i a=a.tif -o x=nodir/x.tif -e a", exitFailed, "does not exist"},
	{"apply A -e a --preview nodir/x.png", exitFailed, "does not exist"},
	{"apply A -e a --tmpdir nodir", exitFailed, "does not exist"},
	{"apply A -e a --no-clobber", exitFailed, "must not be replaced"},
	{"apply A -e a --memory 1K", exitFailed, "more than the memory allowed"},
	{"apply -i a=a.tif -v v=nope.gpkg -o x=x.tif -e a+v", exitFailed, "no such file"},
	{"apply -i a=a.tif -v v=text.txt -o x=x.tif -e a+v", exitFailed, "can't open its vectors"},
	{"zonal -i v=a.tif -z nope.gpkg -o t.csv", exitFailed, "no such file"},
	{"info nope.tif", exitFailed, "no such file"}, {"info text.txt", exitFailed, "not a TIFF"},
	{"info a.tif --preview nodir/x.png", exitFailed, "does not exist"},
	{"cache get nope.cache 0", exitFailed, "no such file"}, {"cache get three.cache 1", exitFailed, "is empty"},
	{"cache stat a.tif", exitFailed, "not a usable cache file"},
}

func TestMistakesThatFilesShow(t *testing.T) {
	t.Parallel()
	dir, env := mistakesDir(t)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("text.txt", "hello\n")
	write("empty.tif", "")
	write("v.geojson", `{"type":"FeatureCollection","crs":{"type":"name","properties":{"name":"urn:ogc:def:crs:EPSG::32631"}},`+
		`"features":[{"type":"Feature","properties":{"k":1,"t":"x"},"geometry":`+
		`{"type":"Polygon","coordinates":[[[310000,4890000],[320000,4890000],[320000,4880000],[310000,4890000]]]}}]}`)
	b, err := os.ReadFile(filepath.Join(dir, "a.tif"))
	if err != nil {
		t.Fatal(err)
	}
	write("cut.tif", string(b[:len(b)/2]))
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	leat(t, exitDone, dir, "cache", "create", "three.cache", "3")
	src, err := apply.Open(filepath.Join(dir, "a.tif"))
	if err != nil {
		t.Fatal(err)
	}
	grid := src.Info().Grid
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*raster.Grid){
		"half.tif": func(g *raster.Grid) {
			g.Width, g.Height = g.Width/2, g.Height/2
			g.Transform[1], g.Transform[5] = 2*g.Transform[1], 2*g.Transform[5]
		},
		"utm33.tif": func(g *raster.Grid) { g.CRS = raster.CRS{Code: "EPSG:32633"} },
		"none.tif":  func(g *raster.Grid) { *g = raster.Grid{Width: g.Width, Height: g.Height} },
		"away.tif":  func(g *raster.Grid) { g.Transform[0] += 1e6 },
		"next.tif":  func(g *raster.Grid) { g.Transform = g.Transform.Shift(g.Width, 0) },
		"float.tif": func(*raster.Grid) {},
	} {
		g, typ := grid, "uint8"
		if change(&g); name == "float.tif" {
			typ = "float32"
		}
		writeZeros(t, filepath.Join(dir, name), g, typ)
	}
	mistakes := fileMistakes
	if gdal.Available() != nil {
		mistakes = nil
		for _, m := range fileMistakes {
			if !strings.Contains(m.line, "apply V") && !strings.Contains(m.line, "-v ") && !strings.Contains(m.line, "zonal") {
				mistakes = append(mistakes, m)
			}
		}
	}
	var lines []string
	for _, m := range mistakes {
		lines = append(lines, strings.NewReplacer("apply A", "apply -i a=a.tif -o x=x.tif",
			"apply V", "apply -i a=a.tif -v v=v.geojson -o x=x.tif").Replace(m.line))
	}
	before := hashFiles(t, dir)
	for i, r := range runMistakes(t, dir, env, lines) {
		if r.Code != mistakes[i].code || !strings.Contains(r.Stderr, mistakes[i].says) || r.Stdout != "" {
			t.Errorf("leat %s: exit code %d, expected %d and %q\n%s%s", lines[i], r.Code, mistakes[i].code, mistakes[i].says,
				r.Stdout, r.Stderr)
		}
	}
	if after := hashFiles(t, dir); after != before {
		t.Errorf("files were touched: %v", names(t, dir))
	}
}

// writeZeros writes a raster of zeros.
func writeZeros(t *testing.T, path string, g raster.Grid, typ string) {
	t.Helper()
	pixel, err := ndarray.ParseDType(typ)
	if err != nil {
		t.Fatal(err)
	}
	_, err = apply.Run(t.Context(), apply.Job{Outputs: map[string]apply.Output{"o": {Path: path, Type: pixel}},
		Expressions: map[string]string{"o": "0"}, Controls: apply.Controls{Grid: &g}})
	if err != nil {
		t.Fatal(err)
	}
}
