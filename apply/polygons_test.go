package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/proctest"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
	"leat/worker/subprocess"
)

const (
	polygonColumns = 300
	polygonRows    = 220
)

// polygonJob returns a job that makes polygons, and a raster, of the raster a.tif in dir. Values
// are 0, 1 and 2; 70 is invalid.
func polygonJob(dir, ending string) Job {
	return Job{Inputs: map[string]Input{"a": {Files: []string{filepath.Join(dir, "a.tif")}, Nodata: []string{"70"}}},
		Expressions: map[string]string{"p": "classify(a, [50, 80])", "r": "a + 1"}, Resume: true,
		Outputs: map[string]Output{"p": {Path: filepath.Join(dir, "p"+ending), Polygons: true, Sieve: 3},
			"r": {Path: filepath.Join(dir, "r.tif"), COG: true}},
		Controls: Controls{WindowWidth: 64, WindowHeight: 64}, Concurrency: Concurrency{Workers: 2}}
}

func polygonRaster(t *testing.T, dir string) {
	t.Helper()
	needFormat(t, "GPKG")
	px := terrain[uint8](polygonColumns, polygonRows, 3)
	write(t, filepath.Join(dir, "a.tif"), mapGrid(polygonColumns, polygonRows, 0, 0),
		holes(px, polygonColumns, 40, 70, 1), nil)
}

func TestPolygonsSameForAnyBlocksAndWorkers(t *testing.T) {
	dir := t.TempDir()
	polygonRaster(t, dir)
	out := filepath.Join(dir, "p.geojson")
	var want []byte
	for _, c := range []struct {
		what    string
		side    int
		workers Concurrency
	}{{"one worker", 64, Concurrency{Workers: 1}}, {"one block", 512, Concurrency{Workers: 3}},
		{"processes", 128, Concurrency{Workers: 2, On: subprocess.New(nil)}},
		{"processes that read", 64, Concurrency{Workers: 2, On: subprocess.New(nil), Reading: ReadByWorkers}}} {
		job := polygonJob(dir, ".geojson")
		job.Controls.WindowWidth, job.Controls.WindowHeight, job.Concurrency = c.side, c.side, c.workers
		res := mustRun(t, job)
		if want == nil {
			want = fileBytes(t, out)
		}
		sameFileBytes(t, c.what, out, want)
		o := res.Outputs[0]
		if n := bytes.Count(want, []byte(`"Feature"`)); o.Polygons == nil || int(*o.Polygons) != n || n < 5 ||
			o.Bytes != int64(len(want)) || o.Format != "GeoJSON" || o.Type != ndarray.Uint8 {
			t.Errorf("%s: %d features, %+v", c.what, n, o)
		}
		if r := res.Outputs[1]; r.Polygons != nil || r.Format != "GTiff" {
			t.Errorf("%s: %+v", c.what, r)
		}
	}
	noTraces(t, dir)
}

// areas returns the number of pixels of the polygons by value.
func areas(t *testing.T, path string) (pixels map[int64]int, smallest int) {
	t.Helper()
	pixels, smallest = map[int64]int{}, 1<<30
	g := mapGrid(polygonColumns, polygonRows, 0, 0)
	_, err := gdal.ReadFeatures(t.Context(), gdal.VectorRequest{Path: path}, []string{"value"}, g,
		func(f *gdal.Feature) error {
			n := int(ringsArea(t, f.WKB)/100 + 0.5)
			pixels[f.Values[0].(int64)] += n
			smallest = min(smallest, n)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return pixels, smallest
}

// ringsArea returns the area of a polygon in little-endian WKB.
func ringsArea(t *testing.T, wkb []byte) (area float64) {
	t.Helper()
	if len(wkb) < 9 || wkb[0] != 1 || wkb[1] != 3 {
		t.Fatalf("%x is not a polygon", wkb)
	}
	words := func(n int) (list []uint32) {
		list = append(list, ndarray.Cast[uint32](bytes.Clone(wkb[:4*n]))...)
		wkb = wkb[4*n:]
		return list
	}
	wkb = wkb[5:]
	for i := range words(1)[0] {
		n := int(words(1)[0])
		xy := ndarray.Cast[float64](bytes.Clone(wkb[:16*n]))
		wkb = wkb[16*n:]
		var ring float64
		for k := range n - 1 {
			ring += (xy[2*k] - xy[0]) * (xy[2*k+3] - xy[1])
			ring -= (xy[2*k+2] - xy[0]) * (xy[2*k+1] - xy[1])
		}
		if ring = max(ring, -ring) / 2; i > 0 {
			ring = -ring
		}
		area += ring
	}
	return area
}

func TestPolygonsCoverValidPixels(t *testing.T) {
	dir := t.TempDir()
	polygonRaster(t, dir)
	px := allOf[uint8](t, open(t, filepath.Join(dir, "a.tif")))
	want := map[int64]int{}
	for _, v := range px {
		switch {
		case v == 70:
		case v < 50:
			want[0]++
		case v < 80:
			want[1]++
		default:
			want[2]++
		}
	}
	for _, diagonals := range []bool{false, true} {
		job := polygonJob(dir, ".gpkg")
		o := job.Outputs["p"]
		o.Sieve, o.Diagonals = 0, diagonals
		job.Outputs["p"] = o
		mustRun(t, job)
		if got, _ := areas(t, o.Path); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("diagonals %v: pixels %v, expected %v", diagonals, got, want)
		}
		o.Sieve = 30
		job.Outputs["p"] = o
		mustRun(t, job)
		if _, smallest := areas(t, o.Path); smallest < 30 {
			t.Errorf("diagonals %v: a polygon of %d pixels", diagonals, smallest)
		}
	}
}

// TestPolygonsOfTypes compares the polygons of every type that they are made of, by a function
// whose type shows in the first block.
func TestPolygonsOfTypes(t *testing.T) {
	t.Parallel()
	needFormat(t, "GPKG")
	dir := t.TempDir()
	grid := mapGrid(polygonColumns, polygonRows, 0, 0)
	px := terrain[uint8](polygonColumns, polygonRows, 5)
	for i := range px {
		px[i] /= 30
	}
	run := func(make func(o Output) Job) map[int64]int {
		path := filepath.Join(dir, "o.gpkg")
		mustRun(t, make(Output{Path: path, Polygons: true, Nodata: "1"}))
		got, _ := areas(t, path)
		return got
	}
	want := run(func(o Output) Job { return sliceJob(grid, px, o) })
	if want[1] != 0 || want[2] == 0 || len(want) < 2 {
		t.Fatal(want)
	}
	signed := make([]int8, len(px))
	for i, v := range px {
		if signed[i] = int8(v); v != 1 {
			signed[i] = -int8(v)
		}
	}
	negative := map[int64]int{}
	for v, n := range want {
		negative[-v] = n
	}
	for what, got := range map[string]map[int64]int{
		"int8":   run(func(o Output) Job { return sliceJob(grid, signed, o) }),
		"int16":  run(func(o Output) Job { return sliceJob(grid, as[int16](signed), o) }),
		"int32":  run(func(o Output) Job { return sliceJob(grid, as[int32](signed), o) }),
		"uint16": negated(run(func(o Output) Job { return sliceJob(grid, as[uint16](px), o) })),
	} {
		if fmt.Sprint(got) != fmt.Sprint(negative) {
			t.Errorf("%s: pixels %v, expected %v", what, got, negative)
		}
	}
	reserved := make([]int32, len(px))
	reserved[polygonColumns*3+7] = gdal.PolygonNodata
	o := Output{Path: filepath.Join(dir, "reserved.gpkg"), Polygons: true}
	failRun(t, sliceJob(grid, reserved, o), "output out: ", "column 7, row 3 is -51502112, which GDAL uses")
	o.Nodata = "-51502112"
	mustRun(t, sliceJob(grid, reserved, o))
}

func as[T, S ndarray.Real](px []S) []T {
	list := make([]T, len(px))
	for i, v := range px {
		list[i] = T(v)
	}
	return list
}

func negated(pixels map[int64]int) map[int64]int {
	all := map[int64]int{}
	for v, n := range pixels {
		all[-v] = n
	}
	return all
}

// polygonOutput is a child that runs polygonJob, with another path of the polygons if there is one.
func polygonOutput(args []string) error {
	job := polygonJob(args[0], ".gpkg")
	if len(args) > 1 {
		job = polygonsAt(args[0], args[1])
	}
	_, err := Run(context.Background(), job)
	return err
}

// polygonsAt returns polygonJob with another path of the polygons, which may be a URL.
func polygonsAt(dir, path string) Job {
	job := polygonJob(dir, ".gpkg")
	o := job.Outputs["p"]
	o.Path, o.TempDir = path, dir
	job.Outputs["p"], job.Store = o, &fakeStore{}
	return job
}

func TestDiscardPolygonsAfterKill(t *testing.T) {
	dir := t.TempDir()
	polygonRaster(t, dir)
	sub, link := filepath.Join(dir, "sub"), filepath.Join(dir, "link.gpkg")
	if err := errors.Join(os.Mkdir(sub, 0o777), os.Symlink(filepath.Join(sub, "p.gpkg"), link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "p.gpkg"), link, "s3://bucket/p.gpkg"} {
		if killed, text, err := proctest.New("polygon output", dir, path).KillAt("apply.laid", 1).Start(t).Wait(); !killed {
			t.Fatalf("%s: the child was not killed: %v\n%s", path, err, text)
		}
		list, err := Discard(t.Context(), polygonsAt(dir, path).Outputs)
		if err != nil || !slices.ContainsFunc(list, func(d Discarded) bool { return filepath.Ext(d.Path) == ".leat-gdal" }) {
			t.Errorf("%s: removed %+v: %v, expected also the pixels for GDAL", path, list, err)
		}
		noTraces(t, dir)
		noTraces(t, sub)
	}
}

func TestKillWhilePolygonsAreMade(t *testing.T) {
	dir := t.TempDir()
	polygonRaster(t, dir)
	mustRun(t, polygonJob(dir, ".gpkg"))
	out := filepath.Join(dir, "p.gpkg")
	want, _ := areas(t, out)
	old := []byte("an older file")
	for _, point := range []string{"apply.laying", "apply.laid", "apply.laid-out"} {
		if err := os.WriteFile(out, old, 0o666); err != nil {
			t.Fatal(err)
		}
		if killed, text, err := proctest.New("polygon output", dir).KillAt(point, 1).Start(t).Wait(); !killed {
			t.Fatalf("%s: the child was not killed: %v\n%s", point, err, text)
		}
		sameFileBytes(t, point, out, old)
		res := mustRun(t, polygonJob(dir, ".gpkg"))
		if got, _ := areas(t, out); fmt.Sprint(got) != fmt.Sprint(want) || res.Resumed != res.Blocks {
			t.Errorf("%s: %d blocks of %d resumed, pixels %v, expected %v", point, res.Resumed, res.Blocks, got, want)
		}
		noTraces(t, dir)
	}
}

func TestPolygonErrors(t *testing.T) {
	dir := t.TempDir()
	polygonRaster(t, dir)
	old := []byte("an older file")
	for what, c := range map[string]struct {
		change func(job *Job, o *Output)
		want   string
	}{
		"float":   {func(job *Job, _ *Output) { job.Expressions["p"] = "a / 2.5" }, "polygons of pixels of float32"},
		"uint32":  {func(_ *Job, o *Output) { o.Type = ndarray.Uint32 }, "polygons of pixels of uint32"},
		"int64":   {func(_ *Job, o *Output) { o.Type = ndarray.Int64 }, "polygons of pixels of int64"},
		"bands":   {func(job *Job, _ *Output) { job.Expressions["p"] = "[a, a]" }, "polygons of 2 bands, expected one"},
		"sieve":   {func(_ *Job, o *Output) { o.Sieve = -1 }, "a sieve of -1 pixels"},
		"COG":     {func(_ *Job, o *Output) { o.COG = true }, "polygons have no overviews"},
		"names":   {func(_ *Job, o *Output) { o.LayerNames = []string{"a"} }, "polygons have no names of bands"},
		"scale":   {func(_ *Job, o *Output) { o.Scale = 2 }, "polygons have no scale"},
		"format":  {func(_ *Job, o *Output) { o.Format = "GPKG" }, "polygons have no format"},
		"ending":  {func(_ *Job, o *Output) { o.Path = filepath.Join(dir, "p.shp") }, "expected a name with one of these endings"},
		"raster":  {func(_ *Job, o *Output) { o.Polygons, o.Path = false, filepath.Join(dir, "p.tif") }, "the output is a raster"},
		"clobber": {func(_ *Job, o *Output) { o.NoClobber = true }, "exists and must not be replaced"},
		"no CRS": {func(job *Job, o *Output) {
			job.Inputs, job.Expressions["p"], job.Expressions["r"] = nil, "x > 5", "x"
			job.Controls.Grid = &raster.Grid{Width: 9, Height: 9, HasTransform: true,
				Transform: raster.Transform{0, 1, 0, 9, 0, -1}}
		}, "names no coordinate reference system, and GeoJSON is in WGS 84"},
	} {
		job := polygonJob(dir, ".geojson")
		o := job.Outputs["p"]
		if err := os.WriteFile(o.Path, old, 0o666); err != nil {
			t.Fatal(err)
		}
		c.change(&job, &o)
		job.Outputs["p"] = o
		t.Run(what, func(t *testing.T) { failRun(t, job, c.want) })
		sameFileBytes(t, what, filepath.Join(dir, "p.geojson"), old)
	}
	noTraces(t, dir)
}

// fakeStore is a Store that keeps one object.
type fakeStore struct{ object []byte }

func (*fakeStore) Check(context.Context, string) error          { return nil }
func (*fakeStore) Exists(context.Context, string) (bool, error) { return false, nil }
func (s *fakeStore) Upload(_ context.Context, _ string, r io.ReaderAt, size int64, _ objstore.UploadOptions) error {
	s.object = make([]byte, size)
	_, err := r.ReadAt(s.object, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

func TestPolygonsInStore(t *testing.T) {
	dir := t.TempDir()
	polygonRaster(t, dir)
	job := polygonJob(dir, ".geojson")
	mustRun(t, job)
	store := &fakeStore{}
	job.Store = store
	o := job.Outputs["p"]
	want := fileBytes(t, o.Path)
	o.Path, o.TempDir = "s3://bucket/p.geojson", dir
	job.Outputs["p"] = o
	mustRun(t, job)
	if !bytes.Equal(store.object, want) {
		t.Errorf("an object of %d bytes, expected the file of %d", len(store.object), len(want))
	}
	noTraces(t, dir)
}

func TestPolygonsCancelled(t *testing.T) {
	dir := t.TempDir()
	polygonRaster(t, dir)
	job := polygonJob(dir, ".gpkg")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	fault.Set(func(point string) error {
		if point == "apply.laid" { // the pixels are GDAL's, polygons are next
			cancel(stop)
		}
		return nil
	})
	_, err := Run(ctx, job)
	fault.Set(nil)
	if !errors.Is(err, stop) {
		t.Errorf("a cancelled run: %v", err)
	}
	mustRun(t, job)
	noTraces(t, dir)
}
