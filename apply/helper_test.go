package apply

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/block"
	"leat/internal/georef"
	"leat/internal/geotiff"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/raster"
)

// everyCase reports whether tests of kills go through all of their cases, as make test-all does.
func everyCase() bool { return os.Getenv("LEAT_TEST_DIST") != "" }

// mapGrid returns a north-up grid of 10 m pixels whose upper left corner is col and row pixels from
// a common origin.
func mapGrid(width, height, col, row int) raster.Grid {
	return raster.Grid{Width: width, Height: height, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}.Shift(col, row)}
}

// cut returns the window of a block from pixels (bands, rows, columns) of the whole grid.
func cut[T ndarray.Element](px []T, width, height int, w block.Window) *ndarray.Array {
	bands := len(px) / width / height
	out := make([]T, 0, int64(bands)*w.Pixels())
	for b := range bands {
		for y := range w.Height {
			at := (b*height+w.Row+y)*width + w.Col
			out = append(out, px[at:at+w.Width]...)
		}
	}
	return ndarray.FromSlice(out, bands, w.Height, w.Width)
}

// sliceJob returns a job that writes given pixels (bands, rows, columns).
func sliceJob[T ndarray.Element](grid raster.Grid, px []T, o Output) Job {
	return Job{Outputs: map[string]Output{"out": o}, Controls: Controls{Grid: &grid},
		Func: func(_ context.Context, b *Block) error {
			b.SetOut("out", cut(px, grid.Width, grid.Height, b.Window))
			return nil
		}}
}

// write makes a raster of pixels (bands, rows, columns), without overviews and statistics; change
// may be nil.
func write[T ndarray.Element](t testing.TB, path string, grid raster.Grid, px []T, change func(*Output)) string {
	t.Helper()
	if georef.Rotated(grid.Transform) { // a job rejects rotated grids
		writeRotated(t, path, grid)
		return path
	}
	o := Output{Path: path, NoOverviews: true, NoStatistics: true, TileSize: 64}
	if change != nil {
		change(&o)
	}
	mustRun(t, sliceJob(grid, px, o))
	return path
}

// writeRotated makes a raster of zeros, at most 64 pixels a side, on a grid of any kind.
func writeRotated(t testing.TB, path string, grid raster.Grid) {
	t.Helper()
	spec := &tiffwrite.FileSpec{Path: path, Width: grid.Width, Height: grid.Height, Bands: 1, Type: ndarray.Uint8,
		TileWidth: 64, TileHeight: 64, Grid: grid}
	tile, err := tiffwrite.NewEncoder(spec.Shape(), tiffwrite.Coding{}).Encode(nil, make([]byte, 64*64))
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(t.TempDir(), "tile")
	if err := os.WriteFile(src, tile, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := tiffwrite.Write(context.Background(), out, spec, in, func(int, int) tiffwrite.TileRef {
		return tiffwrite.TileRef{Bytes: int64(len(tile))}
	}); err != nil {
		t.Fatal(err)
	}
}

func mustRun(t testing.TB, job Job) *Result {
	t.Helper()
	res, err := Run(context.Background(), job)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// failRun runs a job that must fail with an error as wantError expects it.
func failRun(t testing.TB, job Job, want ...string) error {
	t.Helper()
	_, err := Run(context.Background(), job)
	wantError(t, err, want...)
	return err
}

// wantError checks an error: its text contains all of want, except for "field F" and "field F=V",
// which stand for a FieldError with this field, and with this value.
func wantError(t testing.TB, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; it should say %q", want)
	}
	fields := fieldsOf(err)
	for _, w := range want {
		if field, ok := strings.CutPrefix(w, "field "); ok {
			if !slices.Contains(fields, field) {
				t.Errorf("the error has the fields %q, not %s:\n%v", fields, field, err)
			}
			continue
		}
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q:\n%v", w, err)
		}
	}
}

func open(t testing.TB, path string) *geotiff.File {
	t.Helper()
	f, err := geotiff.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// pixels returns all bands of a raster.
func pixels[T ndarray.Element](t testing.TB, path string) []T {
	t.Helper()
	f := open(t, path)
	return allOf[T](t, f)
}

func allOf[T ndarray.Element](t testing.TB, s raster.Source) []T {
	t.Helper()
	i := s.Info()
	bands := make([]int, len(i.Bands))
	for k := range bands {
		bands[k] = k + 1
	}
	a := ndarray.New(ndarray.TypeOf[T](), len(bands), i.Grid.Height, i.Grid.Width)
	if err := s.Read(context.Background(), bands, i.Grid.Window(), a); err != nil {
		t.Fatal(err)
	}
	return ndarray.Slice[T](a)
}

// samePixels compares pixels, with NaN equal to NaN, and reports the first difference.
func samePixels[T ndarray.Element](t testing.TB, what string, width int, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d pixels, not %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: column %d, row %d (over all bands): %v, not %v", what, i%width, i/width, got[i], want[i])
		}
	}
}

func fileBytes(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sameFileBytes(t testing.TB, what, path string, want []byte) {
	t.Helper()
	if got := fileBytes(t, path); !bytes.Equal(got, want) {
		at := 0
		for at < len(got) && at < len(want) && got[at] == want[at] {
			at++
		}
		t.Errorf("%s: %s has other bytes (%d, not %d; the first difference is at %d)", what, filepath.Base(path),
			len(got), len(want), at)
	}
}

// noTraces fails if a directory contains remains of an unfinished run.
func noTraces(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains([]string{".leat-part", ".leat-new", ".leat-gdal"}, filepath.Ext(e.Name())) {
			t.Errorf("%s was left", e.Name())
		}
	}
}

// openFiles returns the number of file descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// terrain returns a smooth surface with noise, different for each seed.
func terrain[T ndarray.Real](width, height int, seed uint64) []T {
	r := rand.New(rand.NewPCG(seed, 1))
	across := make([]float64, width)
	for x := range across {
		across[x] = 30 * math.Sin(float64(x)/37+float64(seed))
	}
	px := make([]T, 0, width*height)
	for y := range height {
		down := 25 * math.Cos(float64(y)/23)
		for _, a := range across {
			px = append(px, T(60+a+down+5*r.Float64()))
		}
	}
	return px
}

// holes sets about one pixel in n, and a rectangle, to v.
func holes[T ndarray.Real](px []T, width, n int, v T, seed uint64) []T {
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range px {
		x, y := i%width, i/width
		if r.IntN(n) == 0 || x > width/3 && x < width/2 && y > 20 && y < 70 {
			px[i] = v
		}
	}
	return px
}

// repositoryData returns the path of a file of real data; it skips the test if the file is absent.
func repositoryData(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the real rasters are absent (../shared/data/%s)", name)
	}
	return path
}

// nothing is a function for jobs that must fail before they call it.
func nothing(context.Context, *Block) error { return fmt.Errorf("the function was called") }

// isClose reports whether two numbers agree to nine digits.
func isClose(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// fieldsOf returns the fields of all FieldErrors that err wraps, with and without their values.
func fieldsOf(err error) (fields []string) {
	if f, ok := err.(*outcome.FieldError); ok {
		fields = append(fields, f.Field, f.Field+"="+f.Value)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			fields = append(fields, fieldsOf(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			fields = append(fields, fieldsOf(one)...)
		}
	}
	return fields
}

// noteTexts returns the texts of notes.
func noteTexts(lists ...[]outcome.Note) (texts []string) {
	for _, n := range slices.Concat(lists...) {
		texts = append(texts, n.Text)
	}
	return texts
}
