package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/proctest"
	"leat/ndarray"
	"leat/raster"
	"leat/worker/subprocess"
)

// needFormat skips a test if GDAL, or one of its formats or programs, is absent.
func needFormat(t testing.TB, formats ...string) {
	t.Helper()
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("gdalinfo"); err != nil {
		t.Skip("gdalinfo is missing: apt-get install gdal-bin")
	}
	for _, f := range formats {
		if d, err := gdal.DriverByName(f); err != nil || !d.Write {
			t.Skipf("this GDAL does not write %s", f)
		}
	}
}

// gdalinfo holds the parts of gdalinfo -json that the tests use.
type gdalinfo struct {
	Size         [2]int
	Driver       string `json:"driverShortName"`
	GeoTransform []float64
	CRS          struct{ Wkt string } `json:"coordinateSystem"`
	Metadata     map[string]any
	Bands        []struct {
		Checksum    int
		Type        string
		Description string
		NoDataValue any
		Unit        string
		Metadata    map[string]map[string]string
		Overviews   []struct {
			Size     [2]int
			Checksum int
		}
		ColorTable *struct{ Entries [][]int }
		Histogram  *struct {
			Count    int
			Min, Max float64
			Buckets  []uint64
		}
	}
}

func infoBy(t testing.TB, path string, options ...string) *gdalinfo {
	t.Helper()
	var stderr bytes.Buffer
	c := exec.Command("gdalinfo", append(append([]string{"-json", "-checksum"}, options...), path)...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("gdalinfo %s: %v\n%s", path, err, stderr.Bytes())
	}
	// GDAL writes some numbers as C does.
	text := strings.NewReplacer(`"noDataValue":"NaN"`, `"noDataValue":"NaN"`, `"noDataValue":nan`,
		`"noDataValue":"NaN"`).Replace(string(out))
	var i gdalinfo
	if err := json.Unmarshal([]byte(text), &i); err != nil {
		t.Fatalf("gdalinfo %s: %v\n%s", path, err, text)
	}
	return &i
}

// formatCase is an output in another format, and what the format drops.
type formatCase struct {
	format, ext string
	options     []string
	expr        string
	change      func(o *Output)
	lost        string // in a warning; "": none
	// overviewsElsewhere: the format makes its own.
	overviewsElsewhere bool
}

func palette() (list []raster.RGBA) {
	for i := range 200 {
		list = append(list, raster.RGBA{R: uint8(i), G: uint8(255 - i), B: uint8(i / 2), A: 255})
	}
	return list
}

var formatCases = map[string]formatCase{
	"HFA, compressed, two bands": {format: "HFA", ext: "img", options: []string{"COMPRESSED=YES"}, expr: "[red, nir]",
		change: func(o *Output) {
			o.LayerNames, o.Metadata, o.OverviewMethod = []string{"first", "second"},
				map[string]string{"MADE_OF": "a scene"}, "average"
		}},
	"hfa, classes": {format: "hfa", ext: "img", expr: "red > 100 ? 3 : 7", change: func(o *Output) {
		o.Type, o.Thematic, o.OverviewMethod, o.Colors = ndarray.Uint8, true, "mode", palette()
	}},
	"PNG, colours": {format: "PNG", ext: "png", expr: "red", change: func(o *Output) {
		o.Type, o.Colors, o.LayerNames = ndarray.Uint8, palette(), []string{"class"}
	}},
	"PNG, uint16": {format: "PNG", ext: "png", options: []string{"ZLEVEL=1"}, expr: "red + nir",
		change: func(o *Output) { o.Type = ndarray.Uint16 }},
	"JP2OpenJPEG, lossless": {format: "JP2OpenJPEG", ext: "jp2", options: []string{"QUALITY=100", "REVERSIBLE=YES"},
		expr: "red", overviewsElsewhere: true,
		change: func(o *Output) { o.Unit = "" }},
	"netCDF": {format: "netCDF", ext: "nc", options: []string{"COMPRESS=DEFLATE"}, expr: "(nir - red) / (nir + red)",
		lost:   "overviews",
		change: func(o *Output) { o.Nodata = "-9999" }},
	"ENVI, two bands": {format: "ENVI", ext: "dat", expr: "[(nir - red) / (nir + red), red / 3]",
		change: func(o *Output) { o.Nodata = "nan" }},
	"AAIGrid": {format: "AAIGrid", ext: "asc", expr: "nir - red",
		change: func(o *Output) { o.Nodata, o.Type, o.Overviews = "-9999", ndarray.Int32, []int{2, 4} }},
	"COG": {format: "COG", ext: "tif", options: []string{"COMPRESS=DEFLATE", "BLOCKSIZE=256"}, expr: "nir / red",
		overviewsElsewhere: true,
		change:             func(o *Output) { o.LayerNames = []string{"ratio"} }},
	"KEA": {format: "KEA", ext: "kea", expr: "red"},
	"RST": {format: "RST", ext: "rst", expr: "nir / 7"},
}

// output returns the output of a case in dir.
func (c *formatCase) output(dir string) Output {
	o := Output{Path: filepath.Join(dir, "out."+c.ext), Format: c.format, Options: c.options}
	if c.change != nil {
		c.change(&o)
	}
	return o
}

// The scene of formats has four blocks of 512 x 512, and two levels of overviews.
const formatWidth, formatHeight = 965, 645

func formatJob(red, nir, expr string, o Output) Job {
	return Job{Inputs: map[string]Input{"red": File(red), "nir": File(nir)},
		Expressions: map[string]string{"out": expr}, Outputs: map[string]Output{"out": o}}
}

// Not parallel: HDF5 locks the files it writes, and a process that another test starts meanwhile
// inherits the lock.
func TestFormatMatchesGeoTIFF(t *testing.T) {
	needFormat(t)
	red, nir := sceneOf(t, formatWidth, formatHeight)
	for name, c := range formatCases {
		t.Run(name, func(t *testing.T) {
			needFormat(t, c.format)
			dir := t.TempDir()
			o := c.output(dir)
			res := mustRun(t, formatJob(red, nir, c.expr, o))
			noFormatTraces(t, dir)
			for _, f := range res.Outputs[0].Files {
				if c.format != "netCDF" && bytes.Contains(fileBytes(t, filepath.Join(dir, f)), []byte("leat-gdal")) {
					t.Errorf("%s names the hidden directory in which it was made", f)
				}
			}
			native := o
			native.Path, native.Format, native.Options = filepath.Join(dir, "native.tif"), "", nil
			if native.COG = c.overviewsElsewhere; native.COG {
				native.Overviews = nil
			}
			want := mustRun(t, formatJob(red, nir, c.expr, native))
			r, w := &res.Outputs[0], &want.Outputs[0]
			if !slices.EqualFunc(r.Bands, w.Bands, func(a, b outcome.BandResult) bool {
				sameHistogram := sameBins(a.Histogram, b.Histogram)
				a.Name, b.Name, a.Histogram, b.Histogram = "", "", outcome.Histogram{}, outcome.Histogram{}
				return sameHistogram && reflect.DeepEqual(a, b)
			}) {
				t.Errorf("the result has other statistics: %+v, not %+v", r.Bands, w.Bands)
			}
			if warned := strings.Join(noteTexts(r.Warnings),
				"; "); warned != "" && (c.lost == "" || !strings.Contains(warned, c.lost)) || warned == "" &&
				c.lost != "" {
				t.Errorf("the warnings are %q", warned)
			}
			sameByGDAL(t, &c, o.Path, native.Path, w)
			// leat reads it too.
			src, err := resolve.OpenRaster(o.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			if i := src.Info(); len(i.Bands) != len(w.Bands) || i.Bands[0].Type != w.Type ||
				i.Grid.Width != formatWidth ||
				strings.EqualFold(i.Driver, "GTiff") != (c.format == "COG") {
				t.Errorf("leat reads %+v", i)
			}
			var bytes int64
			for _, f := range r.Files {
				st, err := os.Stat(filepath.Join(dir, f))
				if err != nil {
					t.Fatal(err)
				}
				bytes += st.Size()
			}
			if r.Bytes != bytes || !slices.Contains(r.Files, filepath.Base(o.Path)) || !strings.EqualFold(r.Format,
				c.format) {
				t.Errorf("%d bytes in %q of format %s", r.Bytes, r.Files, r.Format)
			}
		})
	}
}

// sameByGDAL compares two files by gdalinfo.
func sameByGDAL(t *testing.T, c *formatCase, path, native string, want *outcome.OutputResult) {
	t.Helper()
	f, n := infoBy(t, path, "-hist"), infoBy(t, native)
	if f.Size != n.Size || !slices.EqualFunc(f.GeoTransform, n.GeoTransform,
		isClose) || len(f.Bands) != len(n.Bands) || f.CRS.Wkt == "" {
		t.Fatalf("it has the size %v, the transform %v, %d bands and the CRS %q", f.Size, f.GeoTransform, len(f.Bands),
			f.CRS.Wkt)
	}
	items, _ := n.Metadata[""].(map[string]any)
	have, _ := f.Metadata[""].(map[string]any)
	for k, v := range items {
		if k != "AREA_OR_POINT" && have[k] != v {
			t.Errorf("the item %s is %v, not %v", k, have[k], v)
		}
	}
	for i := range f.Bands {
		b, w, m := &f.Bands[i], &n.Bands[i], &want.Bands[i]
		if b.Checksum != w.Checksum || b.Type != w.Type || fmt.Sprint(b.NoDataValue) != fmt.Sprint(w.NoDataValue) ||
			c.format != "RST" && b.Unit != w.Unit || w.Description != "" && b.Description != w.Description {
			t.Errorf("band %d is %+v, not %+v", i+1, b, w)
		}
		for item, v := range map[string]float64{"MINIMUM": m.Min, "MAXIMUM": m.Max, "MEAN": m.Mean,
			"STDDEV": m.StdDev} {
			if got, err := strconv.ParseFloat(b.Metadata[""]["STATISTICS_"+item], 64); err != nil || !isClose(got, v) {
				t.Errorf("band %d: %s is %v, not %v", i+1, item, got, v)
			}
		}
		if h, bins := b.Histogram, want.Bands[i].Histogram; h == nil {
			t.Errorf("band %d has no histogram", i+1)
		} else if bins.Direct { // bins are single values, and there may be more of them
			if (h.Max-h.Min)/float64(h.Count) != 1 || !sameBins(outcome.Histogram{Min: h.Min + 0.5, Max: h.Max - 0.5,
				Direct: true, Counts: h.Buckets}, bins) {
				t.Errorf("band %d: the histogram is %+v, not %v", i+1, h, bins)
			}
		} else if !isClose(h.Min, bins.Min) || !isClose(h.Max, bins.Max) || !slices.Equal(h.Buckets, bins.Counts) {
			// In HFA these are the middles of the first and the last bin.
			if half := (bins.Max - bins.Min) / float64(len(bins.Counts)-1) / 2; !isClose(h.Min,
				bins.Min-half) || !slices.Equal(h.Buckets, bins.Counts) {
				t.Errorf("band %d: the histogram is %+v, not %v", i+1, h, bins)
			}
		}
		if got, v := b.Metadata[""]["LAYER_TYPE"], w.Metadata[""]["LAYER_TYPE"]; v != "" && got != v {
			t.Errorf("band %d: LAYER_TYPE %q, not %q", i+1, got, v)
		}
		// GDAL reports the colour of nodata as transparent in some formats.
		sameColor := func(a, b []int) bool { return slices.Equal(a[:3], b[:3]) }
		if w.ColorTable != nil && (b.ColorTable == nil || len(b.ColorTable.Entries) < 200 ||
			!slices.EqualFunc(b.ColorTable.Entries[:200], w.ColorTable.Entries[:200], sameColor)) {
			t.Errorf("band %d has another colour table", i+1)
		}
		if c.lost == "overviews" || c.overviewsElsewhere {
			continue
		}
		if len(b.Overviews) != len(w.Overviews) {
			t.Fatalf("band %d has the overviews %v, not %v", i+1, b.Overviews, w.Overviews)
		}
		for k := range b.Overviews {
			if b.Overviews[k].Size != w.Overviews[k].Size {
				t.Errorf("band %d: the overview %d has the size %v, not %v", i+1, k, b.Overviews[k].Size,
					w.Overviews[k].Size)
			}
		}
	}
}

// formatBytes returns the contents of a file, without the directory that some formats store.
func formatBytes(t testing.TB, dir, name string) []byte {
	t.Helper()
	return bytes.ReplaceAll(fileBytes(t, filepath.Join(dir, name)), []byte(dir), nil)
}

// sameFormatBytes reports whether two files, both called name, have the same bytes. Of overviews
// only the size counts. GDAL has one cache for the whole process, so that other tests can change
// when it writes an unfinished tile, and thus the order of tiles in the file.
func sameFormatBytes(name string, a, b []byte) bool {
	return bytes.Equal(a, b) || strings.HasSuffix(name, ".ovr") && len(a) == len(b)
}

// gdalinfoOf returns what gdalinfo says of a file in dir, with checksums of all pixels and those
// of overviews.
func gdalinfoOf(t testing.TB, dir, name string) string {
	t.Helper()
	out, err := exec.Command("gdalinfo", "-json", "-checksum", "-hist", filepath.Join(dir, name)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(out), dir, "")
}

// sameBins reports whether two histograms count the same; a may have a bin for each byte.
func sameBins(a, b outcome.Histogram) bool {
	if !b.Direct || a.Min == b.Min {
		return slices.Equal(a.Counts, b.Counts)
	}
	at := int(b.Min - a.Min)
	none := func(n uint64) bool { return n != 0 }
	return at >= 0 && at+len(b.Counts) <= len(a.Counts) && slices.Equal(a.Counts[at:at+len(b.Counts)], b.Counts) &&
		!slices.ContainsFunc(a.Counts[:at], none) && !slices.ContainsFunc(a.Counts[at+len(b.Counts):], none)
}

// noFormatTraces is noTraces for the files that GDAL writes too.
func noFormatTraces(t testing.TB, dir string) {
	t.Helper()
	noTraces(t, dir)
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.leat-gdal")); left != nil {
		t.Errorf("%q were left", left)
	}
}

func TestFormatSameBytes(t *testing.T) {
	t.Parallel()
	needFormat(t, "HFA", "PNG", "ENVI")
	red, nir := sceneOf(t, formatWidth, formatHeight)
	for _, name := range []string{"HFA, compressed, two bands", "PNG, uint16", "ENVI, two bands"} {
		t.Run(name, func(t *testing.T) {
			c := formatCases[name]
			var want map[string][]byte
			said := "" // by gdalinfo
			for i, way := range []func(j *Job){
				func(j *Job) { j.Concurrency.Workers = 1 },
				func(j *Job) { j.Concurrency.Workers, j.Controls.MemoryBytes = 2, 96<<20 },
				func(j *Job) { j.Controls.WindowWidth, j.Controls.WindowHeight = 512, 512 },
				func(j *Job) { j.Concurrency.Workers, j.Concurrency.On = 2, subprocess.New(nil) },
			} {
				dir := t.TempDir()
				job := formatJob(red, nir, c.expr, c.output(dir))
				way(&job)
				res := mustRun(t, job)
				have := map[string][]byte{}
				for _, f := range res.Outputs[0].Files {
					have[f] = formatBytes(t, dir, f)
				}
				if want == nil {
					want = have
				}
				for f, b := range want {
					// HFA contains the time.
					if !sameFormatBytes(f, have[f], b) && c.format != "HFA" || len(have[f]) != len(b) {
						t.Errorf("way %d: %s has other bytes", i, f)
					}
				}
				if len(have) != len(want) {
					t.Errorf("way %d: %d files, not %d", i, len(have), len(want))
				}
				if text := gdalinfoOf(t, dir, filepath.Base(job.Outputs["out"].Path)); said == "" {
					said = text
				} else if text != said {
					t.Errorf("way %d: gdalinfo says\n%s\nnot\n%s", i, text, said)
				}
				noFormatTraces(t, dir)
			}
		})
	}
}

// formatOutput is a child that writes args[0] and may resume.
func formatOutput(args []string) error {
	job := formatSlices(args[0])
	job.Resume = args[1] == "true"
	_, err := Run(context.Background(), job)
	return err
}

// formatSlices returns a job with two outputs in two formats, in many blocks.
func formatSlices(dir string) Job {
	px := terrain[uint16](1100, 1100, 3)
	return Job{Controls: Controls{Grid: gridOf(1100, 1100), WindowWidth: 512, WindowHeight: 512},
		Outputs: map[string]Output{
			"a": {Path: filepath.Join(dir, "a.png"), Format: "PNG", Overviews: []int{2, 4}},
			"b": {Path: filepath.Join(dir, "b.tif"), Overviews: []int{2, 4}},
			"c": {Path: filepath.Join(dir, "c.dat"), Format: "ENVI"},
		},
		Func: func(_ context.Context, b *Block) error {
			proctest.Point("block")
			for _, name := range []string{"a", "b", "c"} {
				b.SetOut(name, cut(px, 1100, 1100, b.Window))
			}
			return nil
		}}
}

func TestResumeFormatAfterKill(t *testing.T) {
	t.Parallel()
	needFormat(t, "PNG", "ENVI")
	fresh := t.TempDir()
	names := []string{"b.tif"}
	for _, o := range mustRun(t, formatSlices(fresh)).Outputs {
		names = append(names, o.Files...)
	}
	said := map[string]string{"a.png": gdalinfoOf(t, fresh, "a.png"), "c.dat": gdalinfoOf(t, fresh, "c.dat")}
	for _, at := range []struct {
		point string
		pass  int
		all   bool // whether all blocks were done
	}{{"block", 7, false}, {"apply.laying", 1, true}, {"apply.laying", 2, true}, {"apply.laid", 1, true},
		{"apply.laid", 2, true}, {"apply.laid-out", 1, true}} {
		t.Run(fmt.Sprint(at.point, at.pass), func(t *testing.T) {
			if !everyCase() && at.all && at.pass == 2 {
				t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): like the first pass")
			}
			dir := t.TempDir()
			old := filepath.Join(dir, "a.png")
			if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if killed, output, err := proctest.New("format output", dir, "false").KillAt(at.point,
				at.pass).Start(t).Wait(); !killed {
				t.Fatalf("the child was not killed: %v\n%s", err, output)
			}
			if string(fileBytes(t, old)) != "old" {
				t.Error("the old file was touched")
			}
			job := formatSlices(dir)
			job.Resume = true
			res := mustRun(t, job)
			if at.all != (res.Resumed == res.Plan.Blocks.Count()) {
				t.Errorf("%d of %d blocks were resumed", res.Resumed, res.Plan.Blocks.Count())
			}
			for _, n := range names {
				if !sameFormatBytes(n, formatBytes(t, dir, n), formatBytes(t, fresh, n)) {
					t.Errorf("%s has other bytes", n)
				}
			}
			for n, want := range said {
				if got := gdalinfoOf(t, dir, n); got != want {
					t.Errorf("gdalinfo says of %s\n%s\nnot\n%s", n, got, want)
				}
			}
			noFormatTraces(t, dir)
		})
	}
}

func TestDiscardRemovesIncompleteFormat(t *testing.T) {
	t.Parallel()
	needFormat(t, "PNG", "ENVI")
	dir := t.TempDir()
	if killed, output, err := proctest.New("format output", dir, "false").KillAt("apply.laid",
		1).Start(t).Wait(); !killed {
		t.Fatalf("the child was not killed: %v\n%s", err, output)
	}
	list, err := Discard(t.Context(), formatSlices(dir).Outputs)
	if err != nil || !slices.ContainsFunc(list,
		func(d Discarded) bool { return strings.HasSuffix(d.Path, ".a.png.leat-gdal") }) {
		t.Errorf("%+v, %v", list, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v was left, %v", left, err)
	}
}

func TestResumeFormatAfterDiskFull(t *testing.T) {
	needFormat(t, "ENVI")
	const side = 700
	px := make([]uint8, side*side)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range px {
		px[i] = uint8(r.Uint32())
	}
	for _, format := range []string{"ENVI", "HFA", "PNG"} {
		t.Run(format, func(t *testing.T) {
			needFormat(t, format)
			dir := smallDisk(t, "800k") // space for the spool, but not for the output too
			o := Output{Path: filepath.Join(dir, "out.dat"), Format: format, NoOverviews: true}
			job := sliceJob(mapGrid(side, side, 0, 0), px, o)
			err := failRun(t, job, "out.dat", "is full")
			left := new(outcome.IncompleteError)
			if !errors.As(err, &left) || left.Done != left.Total {
				t.Fatalf("the work is not kept: %v", err)
			}
			if _, err := os.Stat(o.Path); err == nil {
				t.Error("there is half an output")
			}
			// With more space the run can be resumed.
			if err := remountSize(dir, "8m"); err != nil {
				t.Fatal(err)
			}
			job.Resume = true
			job.Func = nothing
			mustRun(t, job)
			if b := infoBy(t, o.Path).Bands[0]; b.Checksum == 0 {
				t.Error("nothing was written")
			}
			noFormatTraces(t, dir)
		})
	}
}

func TestNotesOnFormat(t *testing.T) {
	t.Parallel()
	needFormat(t, "PCIDSK", "RRASTER", "Zarr")
	px := terrain[uint8](64, 64, 1)
	for format, want := range map[string]string{
		"PCIDSK":  "the format PCIDSK does not keep the coordinate reference system as it was",
		"Zarr":    "the format Zarr does not keep overviews, metadata items, names of bands, ",
		"RRASTER": "the format RRASTER does not keep statistics, the share of valid pixels and histograms",
	} {
		grid := mapGrid(64, 64, 0, 0)
		o := Output{Path: filepath.Join(t.TempDir(), "x.bin"), Format: format}
		switch format {
		case "PCIDSK":
			grid.CRS = raster.CRS{Code: "EPSG:3857"}
		case "RRASTER":
			o.Path = strings.TrimSuffix(o.Path, ".bin") + ".grd"
		case "Zarr":
			o.LayerNames, o.Unit, o.Metadata = []string{"a"}, "m", map[string]string{"A": "1"}
			grid = mapGrid(640, 640, 0, 0)
			px = terrain[uint8](640, 640, 1)
		}
		job := sliceJob(grid, px[:grid.Width*grid.Height], o)
		if got := strings.Join(noteTexts(mustRun(t, job).Outputs[0].Warnings), "; "); !strings.HasPrefix(got, want) {
			t.Errorf("%s: the warnings are %q, not %q", format, got, want)
		}
		px = terrain[uint8](64, 64, 1)
	}
}

func TestNoteOnBandReadAsAlpha(t *testing.T) {
	needFormat(t, "PNG")
	o := Output{Path: filepath.Join(t.TempDir(), "x.png"), Format: "PNG"}
	px := append(terrain[uint8](64, 64, 1), terrain[uint8](64, 64, 2)...)
	if w := mustRun(t, sliceJob(mapGrid(64, 64, 0, 0), px, o)).Outputs[0].Warnings; len(w) != 1 ||
		!strings.Contains(w[0].Text, "takes band 2 for opacity") {
		t.Errorf("the result says %q", w)
	}
}

func TestNoteOnLossyFormat(t *testing.T) {
	needFormat(t, "JPEG")
	o := Output{Path: filepath.Join(t.TempDir(), "x.jpg"), Format: "JPEG", Type: ndarray.Uint8, Bands: 1}
	job := sliceJob(mapGrid(600, 600, 0, 0), terrain[uint8](600, 600, 1), o)
	p, err := MakePlan(t.Context(), job)
	if err != nil || len(p.Outputs[0].Notes) != 1 || !strings.Contains(p.Outputs[0].Notes[0].Text,
		"changes pixels") || p.Outputs[0].Format != "JPEG" {
		t.Errorf("the plan says %+v, %v", p.Outputs, err)
	}
	if w := mustRun(t, job).Outputs[0].Warnings; len(w) != 1 || !strings.Contains(w[0].Text, "changes pixels") {
		t.Errorf("the result says %q", w)
	}
}

func TestLayoutCanceled(t *testing.T) {
	needFormat(t, "PNG", "ENVI")
	why := errors.New("it is late")
	for _, format := range []string{"PNG", "ENVI"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancelCause(t.Context())
		job := sliceJob(mapGrid(600, 600, 0, 0), terrain[uint8](600, 600, 1),
			Output{Path: filepath.Join(dir, "x.bin"), Format: format})
		resumed := job
		job.Outputs = map[string]Output{"out": job.Outputs["out"]}
		o := job.Outputs["out"]
		o.BeforeClose = func(*raster.Info) error { cancel(why); return nil }
		job.Outputs["out"] = o
		_, err := Run(ctx, job)
		var left *outcome.IncompleteError
		if !errors.Is(err, why) || !errors.As(err, &left) || left.Done != left.Total {
			t.Errorf("%s: %v", format, err)
		}
		resumed.Resume, resumed.Func = true, nothing
		mustRun(t, resumed)
		noFormatTraces(t, dir)
	}
}

func TestFormatPixelTypes(t *testing.T) {
	needFormat(t, "HFA", "ENVI")
	const w, h = 130, 90
	cplx := make([]complex64, w*h)
	signed := make([]int8, w*h)
	for i := range cplx {
		cplx[i], signed[i] = complex(float32(i), -float32(i)/3), int8(i)
	}
	for _, format := range []string{"HFA", "ENVI"} {
		path := filepath.Join(t.TempDir(), "c.img")
		res := mustRun(t, sliceJob(mapGrid(w, h, 0, 0), cplx, Output{Path: path, Format: format, NoOverviews: true}))
		f, err := gdal.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := allOf[complex64](t, f); !slices.Equal(got, cplx) || len(res.Outputs[0].Warnings) > 0 {
			t.Errorf("%s: other pixels, or %q", format, res.Outputs[0].Warnings)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	path := filepath.Join(t.TempDir(), "s.img")
	mustRun(t, sliceJob(mapGrid(w, h, 0, 0), signed, Output{Path: path, Format: "HFA", Nodata: "-5"}))
	f, err := gdal.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := allOf[int8](t, f); !slices.Equal(got,
		signed) || f.Info().Bands[0].Nodata == nil || f.Info().Bands[0].Nodata.String() != "-5" {
		t.Errorf("signed bytes: %v, nodata %v", got[:20], f.Info().Bands[0].Nodata)
	}
}

func TestFormatReplacesLinkTarget(t *testing.T) {
	needFormat(t, "HFA")
	dir, elsewhere := t.TempDir(), t.TempDir()
	link, target := filepath.Join(dir, "l.img"), filepath.Join(elsewhere, "t.img")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(link+".aux.xml", []byte("<PAMDataset/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, sliceJob(mapGrid(64, 64, 0, 0), terrain[uint8](64, 64, 1), Output{Path: link, Format: "HFA"}))
	if to, err := os.Readlink(link); err != nil || to != target {
		t.Errorf("the link leads to %s, %v", to, err)
	}
	if _, err := os.Stat(link + ".aux.xml"); err == nil {
		t.Error("a file that belonged to the old output is left")
	}
	if b := infoBy(t, link).Bands[0]; b.Checksum == 0 {
		t.Error("there is nothing in it")
	}
	noFormatTraces(t, dir)
	noFormatTraces(t, elsewhere)
}
