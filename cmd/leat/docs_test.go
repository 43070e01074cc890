package main

import (
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leat/apply"
	"leat/ndarray"
)

// shellBlocks returns the commands of a page, a text for each block marked sh.
func shellBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```sh\n")
	for _, p := range parts[1:] {
		commands, _, ended := strings.Cut(p, "\n```\n")
		if !ended {
			t.Fatalf("%s: a block has no end: %.60s", page, p)
		}
		blocks = append(blocks, commands)
	}
	return blocks
}

// runPage runs all commands of a page in a new directory, in order and after those of before, and
// returns it. There is an S3 server with a bucket, whose name is $BUCKET.
func runPage(t *testing.T, page string, before ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: computes for seconds")
	}
	for _, program := range []string{"bash", "gdal_sieve.py", "gdal_polygonize.py", "ogrinfo"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the pages use programs that are not here: " + program)
		}
	}
	dir := t.TempDir()
	m := newMirror(t, dir)
	env := append(os.Environ(), "BUCKET=bucket", "AWS_ENDPOINT_URL_S3="+m.s3.URL, "AWS_ACCESS_KEY_ID=id",
		"AWS_SECRET_ACCESS_KEY=secret", "AWS_REGION=us-east-1", "AWS_CONFIG_FILE="+filepath.Join(dir, "none"),
		"AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(dir, "none"), "LEAT_CACHE_DIR="+filepath.Join(dir, "home"),
		"LEAT_RUNTIME_DIR="+filepath.Join(dir, "run"))
	for _, commands := range append(before, shellBlocks(t, page)...) {
		c := exec.CommandContext(t.Context(), "bash", "-eu", "-o", "pipefail", "-c", commands)
		c.Dir, c.Env = dir, env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%s\n%v", commands, out, err)
		}
	}
	return dir
}

// pixels returns band 1 of a raster, with NaN for nodata.
func pixels(t *testing.T, path string) (values []float64, width int) {
	t.Helper()
	src, err := apply.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	info := src.Info()
	g := info.Grid
	a := ndarray.New(info.Bands[0].Type, 1, g.Height, g.Width)
	if err := src.Read(t.Context(), []int{1}, g.Window(), a); err != nil {
		t.Fatal(err)
	}
	nodata := math.NaN()
	if n := info.Bands[0].Nodata; n != nil {
		nodata = n.Float64()
	}
	for _, v := range floats(a) {
		if v == nodata {
			v = math.NaN()
		}
		values = append(values, v)
	}
	return values, g.Width
}

func TestTutorialRuns(t *testing.T) {
	t.Parallel()
	dir := runPage(t, "tutorial.md")
	ndvi, _ := pixels(t, filepath.Join(dir, "ndvi.tif"))
	clear, _ := pixels(t, filepath.Join(dir, "clear.tif"))
	class, _ := pixels(t, filepath.Join(dir, "scene/SCL.tif"))
	for i := range ndvi {
		want := ndvi[i]
		if class[i] == 3 || class[i] >= 8 {
			want = math.NaN()
		}
		if !same(clear[i], want) {
			t.Fatalf("pixel %d of class %v: %v, want %v", i, class[i], clear[i], want)
		}
	}
}

func TestReadmeRuns(t *testing.T) {
	t.Parallel()
	dir := runPage(t, "../README.md", "leat demo --size 512 demo")
	ndvi, _ := pixels(t, filepath.Join(dir, "ndvi.tif"))
	demo, _ := pixels(t, filepath.Join(dir, "demo/ndvi.tif"))
	class, _ := pixels(t, filepath.Join(dir, "class.tif"))
	for i := range ndvi {
		want := 1.0
		if ndvi[i] > 0.5 {
			want = 2
		}
		if !same(ndvi[i], demo[i]) || ndvi[i] == ndvi[i] && class[i] != want {
			t.Fatalf("pixel %d: %v, in the demo %v, class %v", i, ndvi[i], demo[i], class[i])
		}
	}
}

func TestRecipesRun(t *testing.T) {
	t.Parallel()
	dir := runPage(t, "recipes.md")
	at := func(name string) string { return filepath.Join(dir, name) }
	var dates [][3][]float64
	paths, err := filepath.Glob(at("demo/2024-*"))
	if err != nil || len(paths) != 6 {
		t.Fatal(paths, err)
	}
	for _, p := range paths {
		var d [3][]float64
		for i, name := range []string{"B04.tif", "B08.tif", "SCL.tif"} {
			d[i], _ = pixels(t, filepath.Join(p, name))
		}
		dates = append(dates, d)
	}
	ndviOf := func(d [3][]float64, i int) float64 {
		if !(d[2][i] >= 4 && d[2][i] <= 6) {
			return math.NaN()
		}
		// leat computes with float32, whose results the medians are.
		return float64(float32(d[1][i]-d[0][i]) / float32(d[1][i]+d[0][i]-2000))
	}
	median, width := pixels(t, at("median.tif"))
	for i := range median {
		var valid []float64
		for _, d := range dates {
			if v := ndviOf(d, i); v == v {
				valid = append(valid, v)
			}
		}
		slices.Sort(valid)
		want, n := math.NaN(), len(valid)
		if n > 0 {
			want = float64(float32((valid[(n-1)/2] + valid[n/2]) / 2))
		}
		if !same(median[i], want) {
			t.Fatalf("median of pixel %d: %v, want %v", i, median[i], want)
		}
	}
	change, _ := pixels(t, at("change.tif"))
	for i := range change {
		if want := ndviOf(dates[5], i) - ndviOf(dates[0], i); !same(change[i], float64(float32(want))) {
			t.Fatalf("change of pixel %d: %v, want %v", i, change[i], want)
		}
	}
	coarse, across := pixels(t, at("coarse.tif"))
	for i, got := range coarse {
		var sum, n float64
		for k := range 9 {
			if v := median[(i/across*3+k/3)*width+i%across*3+k%3]; v == v {
				sum, n = sum+v, n+1
			}
		}
		if n > 0 && math.Abs(got-sum/n) > 1e-6 || n == 0 && got == got {
			t.Fatalf("mean of pixel %d: %v, want %v", i, got, sum/n)
		}
	}
	checkZonal(t, dir)
	small, _ := pixels(t, at("small.tif"))
	classes, _ := pixels(t, at("classes.tif"))
	for i, v := range median {
		if (v == v) != (small[i] == small[i]) || math.Abs(small[i]*1e-4-v) > 0.51e-4 {
			t.Fatalf("scaled pixel %d: %v of %v", i, small[i], v)
		}
		want := 3.0
		if v < 0.2 {
			want = 1
		} else if v < 0.5 {
			want = 2
		}
		if v == v && classes[i] != want {
			t.Fatalf("class of pixel %d: %v of %v", i, classes[i], v)
		}
	}
}

// checkZonal checks the table of the polygons of sieved pixels.
func checkZonal(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "loss.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 || !slices.Equal(rows[0], []string{"fid", "count", "mean", "p10"}) {
		t.Fatalf("%q: %v", rows, err)
	}
	var n, sum float64
	for _, row := range rows[1:] {
		count, err1 := strconv.ParseFloat(row[1], 64)
		mean, err2 := strconv.ParseFloat(row[2], 64)
		if err1 != nil || err2 != nil {
			t.Fatal(row)
		}
		n, sum = n+count, sum+count*mean
	}
	change, _ := pixels(t, filepath.Join(dir, "change.tif"))
	sieved, _ := pixels(t, filepath.Join(dir, "sieved.tif"))
	var wantN, want float64
	for i, v := range change {
		if sieved[i] == 1 && v == v {
			wantN, want = wantN+1, want+v
		}
	}
	if n != wantN || math.Abs(sum-want) > 1e-9*math.Abs(want) || n == 0 {
		t.Errorf("%v pixels with the sum %v, want %v and %v", n, sum, wantN, want)
	}
}

func same(a, b float64) bool { return a == b || a != a && b != b }

// floats converts an array of the types that the pages' outputs have.
func floats(a *ndarray.Array) []float64 {
	switch a.Type {
	case ndarray.Uint8:
		return floatsOf[uint8](a)
	case ndarray.Uint16:
		return floatsOf[uint16](a)
	case ndarray.Int16:
		return floatsOf[int16](a)
	}
	return floatsOf[float32](a)
}

func floatsOf[T uint8 | uint16 | int16 | float32](a *ndarray.Array) (values []float64) {
	for _, v := range ndarray.Slice[T](a) {
		values = append(values, float64(v))
	}
	return values
}
