package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply"
	"leat/ndarray"
)

// shellBlocks returns the commands of a page, a text for each block marked sh.
func shellBlocks(t *testing.T, page string) []string {
	t.Helper()
	return fencedBlocks(t, page, "sh")
}

// fencedBlocks returns the texts of a page that are marked as a language.
func fencedBlocks(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```"+language+"\n")
	for _, p := range parts[1:] {
		commands, _, ended := strings.Cut(p, "\n```\n")
		if !ended {
			t.Fatalf("%s: a block has no end: %.60s", page, p)
		}
		blocks = append(blocks, commands)
	}
	return blocks
}

// A pageRun is a directory in which the commands of a page run. There is an S3 server with a
// bucket, whose name is $BUCKET.
type pageRun struct {
	dir    string
	env    []string
	bucket string // its URL
}

// newPageRun returns a new directory for commands that use the programs.
func newPageRun(t *testing.T, programs ...string) *pageRun {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: computes for seconds")
	}
	for _, program := range append(programs, "bash") {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the commands use programs that are not here: " + program)
		}
	}
	dir := t.TempDir()
	m := newMirror(t, dir)
	return &pageRun{dir: dir, bucket: m.s3.URL + "/bucket/",
		env: append(os.Environ(), "BUCKET=bucket", "AWS_ENDPOINT_URL_S3="+m.s3.URL, "AWS_ACCESS_KEY_ID=id",
			"AWS_SECRET_ACCESS_KEY=secret", "AWS_REGION=us-east-1", "AWS_CONFIG_FILE="+filepath.Join(dir, "none"),
			"AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(dir, "none"), "LEAT_CACHE_DIR="+filepath.Join(dir, "home"),
			"LEAT_RUNTIME_DIR="+filepath.Join(dir, "run"))}
}

// runPage runs all commands of a page in a new directory, in order and after those of before.
func runPage(t *testing.T, page string, before ...string) *pageRun {
	t.Helper()
	r := newPageRun(t, "ogrinfo")
	for _, commands := range append(before, shellBlocks(t, page)...) {
		r.run(t, commands)
	}
	return r
}

// run runs commands of a shell, and returns what they print to standard output.
func (r *pageRun) run(t *testing.T, commands string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-eu", "-o", "pipefail", "-c", commands)
	var stderr bytes.Buffer
	c.Dir, c.Env, c.Stderr = r.dir, r.env, &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s\n%s%s\n%v", commands, out, stderr.Bytes(), err)
	}
	return out
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
	dir := runPage(t, "tutorial.md").dir
	ndvi, _ := pixels(t, filepath.Join(dir, "ndvi.tif"))
	clear, _ := pixels(t, filepath.Join(dir, "clear.tif"))
	class, _ := pixels(t, filepath.Join(dir, "scene/SCL.tif"))
	for i := range ndvi {
		want := ndvi[i]
		if class[i] == 3 || class[i] >= 8 {
			want = math.NaN()
		}
		if !same(clear[i], want) {
			t.Fatalf("pixel %d of class %v: %v, expected %v", i, class[i], clear[i], want)
		}
	}
}

func TestReadmeRuns(t *testing.T) {
	t.Parallel()
	dir := runPage(t, "../README.md", "leat demo --size 512 demo").dir
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
