package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leat/internal/driver"

	"github.com/google/go-cmp/cmp"

	"leat/apply"
	"leat/block"
	"leat/internal/npy"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
)

// kinds are the layouts that other programs write.
var kinds = map[string]func(*apply.Output){
	"a plain file":                  nil,
	"a COG":                         func(o *apply.Output) { o.COG = true },
	"one with bands side by side":   func(o *apply.Output) { o.PixelInterleave = true },
	"an uncompressed one":           func(o *apply.Output) { o.Compression = "none" },
	"an uncompressed one, by pixel": func(o *apply.Output) { o.Compression, o.PixelInterleave = "none", true },
	"one with nodata":               func(o *apply.Output) { o.Nodata = "7" },
	"a BigTIFF":                     func(o *apply.Output) { o.BigTIFF, o.COG = true, true },
}

func TestRemoteEqualsLocal(t *testing.T) {
	for name, change := range kinds {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			scene(t, s.path("a.tif"), testGrid, 3, 1, change)
			other := testGrid.Sub(raster.Window{Col: 30, Row: 20, Width: 640, Height: 480})
			scene(t, s.path("b.tif"), other, 2, 2, change)
			dir := t.TempDir()
			for what, controls := range map[string]apply.Controls{
				"whole":  {},
				"union":  {Footprint: apply.Union},
				"window": {Window: &block.Window{Col: 100, Row: 90, Width: 90, Height: 70}},
				"windows": {WindowWidth: 128, WindowHeight: 64,
					Window: &block.Window{Col: 33, Row: 50, Width: 300, Height: 300}},
			} {
				if name != "a COG" && (what == "whole" || what == "window" || testing.Short()) {
					continue
				}
				job := ratio(s.path("a.tif"), s.path("b.tif"), filepath.Join(dir, "local-"+what+".tif"))
				job.Controls = controls
				mustRun(t, job)
				for _, with := range []string{"stage", "pieces"} {
					stores := newStores(t, map[string]string{"stage": filepath.Join(dir, "stage"), "pieces": ""}[with])
					remote := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, with+"-"+what+".tif"))
					remote.Controls, remote.Open = controls, stores.Open
					remote.Concurrency = apply.Concurrency{Workers: 3, Readers: 3}
					mustRun(t, remote)
					sameFile(t, remote.Outputs["out"].Path, job.Outputs["out"].Path)
				}
			}
		})
	}
}

func TestMarginEqualsLocal(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, kinds["a COG"])
	dir := t.TempDir()
	run := func(path, out string, open func(context.Context, string) (raster.Source, error)) {
		mustRun(t, apply.Job{
			Inputs:  map[string]apply.Input{"a": apply.File(path)},
			Outputs: map[string]apply.Output{"out": {Path: out, TileSize: 64}}, Open: open,
			Controls: apply.Controls{Overlap: 9, Margin: block.MarginReflect,
				Window:      &block.Window{Col: 200, Row: 200, Width: 200, Height: 150},
				WindowWidth: 64, WindowHeight: 64},
			Func: func(_ context.Context, b *apply.Block) error {
				out := b.NewOut(ndarray.Float32, 1)
				px, w, sums := apply.Band[uint16](b, "a", 1), b.Columns(), ndarray.Slice[float32](out)
				for i := range sums { // along a diagonal, within the margin
					sums[i] = 0
					for d := range 10 {
						sums[i] += float32(px[min(i/w+d, b.Rows()-1)*w+max(i%w-d, 0)])
					}
				}
				b.SetOut("out", out)
				return nil
			}})
	}
	run(s.path("a.tif"), filepath.Join(dir, "local.tif"), nil)
	run(s.url("a.tif"), filepath.Join(dir, "remote.tif"), newStores(t, "").Open)
	sameFile(t, filepath.Join(dir, "remote.tif"), filepath.Join(dir, "local.tif"))
}

// tilesOf returns the number of bytes of the tiles that a window needs, and those of header and
// tables.
func tilesOf(t *testing.T, path string, w raster.Window, bands ...int) int64 {
	t.Helper()
	src, err := apply.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	list, err := src.(raster.RangeLister).Ranges(t.Context(), bands, w, true)
	if err != nil {
		t.Fatal(err)
	}
	return driver.RangeBytes(list)
}

// headOf returns the size of the directories of a COG: all before its first tile.
func headOf(t *testing.T, path string) int64 {
	t.Helper()
	src, err := apply.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	levels := src.(raster.OverviewSource)
	first := int64(1 << 60)
	for i := range levels.Overviews() {
		level, err := levels.Overview(i)
		if err != nil {
			t.Fatal(err)
		}
		list, err := level.(raster.RangeLister).Ranges(t.Context(), []int{1}, level.Info().Grid.Window(), false)
		if err != nil {
			t.Fatal(err)
		}
		first = min(first, list[0].Offset)
	}
	return first
}

func TestWindowReadsOnlyItsBytes(t *testing.T) {
	big := testGrid
	big.Width, big.Height = 4000, 3600
	for _, tile := range []int{64, 256} {
		t.Run(fmt.Sprintf("tiles of %d", tile), func(t *testing.T) {
			if testing.Short() && tile == 64 {
				t.Skip("-short: small tiles")
			}
			s := newShop(t)
			for i, name := range []string{"a.tif", "b.tif"} {
				scene(t, s.path(name), big, 1, uint64(i), func(o *apply.Output) { o.COG, o.TileSize = true, tile })
			}
			for _, w := range []block.Window{{Col: 1000, Row: 900, Width: 1, Height: 1},
				{Col: 1024, Row: 1024, Width: 256, Height: 256}, {Col: 700, Row: 1100, Width: 1500, Height: 700},
				{Col: 0, Row: 3500, Width: 4000, Height: 20}} {
				s.reset()
				job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(t.TempDir(), "out.tif"))
				job.Open, job.Controls.Window = newStores(t, "").Open, &w
				res := mustRun(t, job)
				for i, name := range []string{"a.tif", "b.tif"} {
					tiles := tilesOf(t, s.path(name), w, 1)
					if got, head := s.sent(name), headOf(t, s.path(name)); got > head+tiles*21/20+64<<10 {
						t.Errorf("%v: %d bytes came, the tiles have %d, and directories %d: %q", w, got, tiles, head,
							s.rangesOf(name))
					}
					in := res.Plan.Inputs[i]
					if in.Access != "in pieces" || in.NeedBytes != tiles {
						t.Errorf("%v: the plan says %s, %d of %d", w, in.Access, in.NeedBytes, in.FileBytes)
					}
				}
			}
		})
	}
}

func TestSharedTilesComeOnce(t *testing.T) {
	big := testGrid
	big.Width, big.Height = 2000, 2000
	s := newShop(t)
	scene(t, s.path("a.tif"), big, 2, 1, func(o *apply.Output) { o.TileSize = 128; o.PixelInterleave = true })
	scene(t, s.path("b.tif"), big, 1, 2, func(o *apply.Output) { o.TileSize = 256 })
	w := block.Window{Col: 77, Row: 33, Width: 1300, Height: 1300}
	job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(t.TempDir(), "out.tif"))
	job.Open, job.Controls = newStores(t, "").Open, apply.Controls{Window: &w, WindowWidth: 192, WindowHeight: 192}
	mustRun(t, job)
	for _, name := range []string{"a.tif", "b.tif"} {
		tiles := tilesOf(t, s.path(name), w, 1)
		if got := s.sent(name); got > tiles*21/20+64<<10 {
			t.Errorf("%s: %d bytes came, the tiles have %d: %q", name, got, tiles, s.rangesOf(name))
		}
	}
}

func TestFileStagedOnce(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	scene(t, s.path("b.tif"), testGrid, 1, 2, nil)
	dir := t.TempDir()
	for i := range 3 {
		s.reset()
		job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, fmt.Sprint(i, ".tif")))
		job.Open = newStores(t, filepath.Join(dir, "stage")).Open
		res := mustRun(t, job)
		for _, in := range res.Plan.Inputs {
			st, err := os.Stat(s.path(in.Name + ".tif"))
			if err != nil {
				t.Fatal(err)
			}
			if in.Access != "staged" || in.Why == "" {
				t.Errorf("the plan says %s: %s", in.Access, in.Why)
			}
			got, header := s.sent(in.Name+".tif"), int64(32<<10)
			if i == 0 && got != st.Size()+header || i > 0 && got != header {
				t.Errorf("run %d: %d bytes of %s came, which has %d", i, got, in.Name, st.Size())
			}
		}
	}
}

func TestSourceWithoutRangesIsStaged(t *testing.T) {
	s := newShop(t)
	s.noRanges = true
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	scene(t, s.path("b.tif"), testGrid, 1, 2, nil)
	dir := t.TempDir()
	w := block.Window{Width: 10, Height: 10}
	local := ratio(s.path("a.tif"), s.path("b.tif"), filepath.Join(dir, "local.tif"))
	local.Controls.Window = &w
	mustRun(t, local)
	job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, "remote.tif"))
	job.Controls.Window = &w
	job.Open = newStores(t, filepath.Join(dir, "stage")).Open
	res := mustRun(t, job)
	sameFile(t, job.Outputs["out"].Path, local.Outputs["out"].Path)
	if in := res.Plan.Inputs[0]; in.Access != "staged" || in.Why == "" {
		t.Errorf("the plan says %s: %s", in.Access, in.Why)
	}
	job.Open = newStores(t, "").Open
	_, err := apply.Run(t.Context(), job)
	wantError(t, err, s.url("a.tif"))
}

func TestInputChangedDuringRun(t *testing.T) {
	for _, with := range []string{"stage", "pieces"} {
		t.Run(with, func(t *testing.T) {
			s := newShop(t)
			scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
			scene(t, s.path("b.tif"), testGrid, 1, 2, nil)
			dir := t.TempDir()
			stores := newStores(t, map[string]string{"stage": filepath.Join(dir, "stage"), "pieces": ""}[with])
			job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, "out.tif"))
			job.Open = func(ctx context.Context, url string) (raster.Source, error) {
				src, err := stores.Open(ctx, url)
				if strings.HasSuffix(url, "b.tif") {
					later := time.Now().Add(time.Hour)
					if err := os.Chtimes(s.path("b.tif"), later, later); err != nil {
						t.Error(err)
					}
				}
				return src, err
			}
			_, err := apply.Run(t.Context(), job)
			if !errors.Is(err, objstore.ErrChanged) {
				t.Fatalf("the error is %v", err)
			}
			if e := new(objstore.Error); errors.As(err, &e) && e.URL != s.url("b.tif") {
				t.Errorf("it is about %s", e.URL)
			}
			if _, err := os.Stat(filepath.Join(dir, "out.tif")); err == nil {
				t.Error("there is an output")
			}
		})
	}
}

func TestRemoteSidecars(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	scene(t, s.path("b.tif"), testGrid, 1, 2, nil)
	mask := testGrid
	scene(t, s.path("mask.tif"), mask, 1, 3, func(o *apply.Output) { o.Type = ndarray.Uint16 })
	// The mask has bytes: every third pixel is valid.
	mustRun(t, apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.path("mask.tif"))},
		Outputs: map[string]apply.Output{"out": {Path: s.path("a.tif.tif"), Type: ndarray.Uint8, TileSize: 64,
			Metadata: map[string]string{"INTERNAL_MASK_FLAGS_1": "2"}}},
		Expressions: map[string]string{"out": "a > 1000 ? 255 : 0"}})
	if err := os.Rename(s.path("a.tif.tif"), s.path("a.tif.msk")); err != nil {
		t.Fatal(err)
	}
	aux := `<PAMDataset><PAMRasterBand band="1"><Description>from sidecar</Description><NoDataValue>11</NoDataValue></PAMRasterBand></PAMDataset>`
	if err := os.WriteFile(s.path("b.tif.aux.xml"), []byte(aux), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	local := ratio(s.path("a.tif"), s.path("b.tif"), filepath.Join(dir, "local.tif"))
	if res := mustRun(t, local); res.Outputs[0].Bands[0].ValidPercent > 70 {
		t.Fatal("the mask has no effect")
	}
	for _, stage := range []string{"", filepath.Join(dir, "stage")} {
		stores := newStores(t, stage)
		job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, "remote.tif"))
		job.Open = stores.Open
		mustRun(t, job)
		sameFile(t, job.Outputs["out"].Path, local.Outputs["out"].Path)
		src, err := stores.Open(t.Context(), s.url("b.tif"))
		if err != nil {
			t.Fatal(err)
		}
		if b := src.Info().Bands[0]; b.Name != "from sidecar" || b.NodataText != "11" {
			t.Errorf("the band is %+v", b)
		}
		src.Close()
	}

	t.Run("an HTML page is not a sidecar", func(t *testing.T) {
		if err := os.WriteFile(s.path("b.tif.msk"), []byte("<!DOCTYPE html><html>not found</html>"),
			0o600); err != nil {
			t.Fatal(err)
		}
		job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, "remote.tif"))
		job.Open = newStores(t, "").Open
		mustRun(t, job)
		sameFile(t, job.Outputs["out"].Path, local.Outputs["out"].Path)
	})
	t.Run("a refused sidecar is missing", func(t *testing.T) {
		for _, suffix := range []string{".msk", ".ovr"} {
			s.status["/b.tif"+suffix] = 403
			defer delete(s.status, "/b.tif"+suffix)
		}
		stores := newStores(t, "")
		var warnings logged
		stores.o.Logger = slog.New(&warnings)
		for range 2 {
			src, err := stores.Open(t.Context(), s.url("b.tif"))
			if err != nil {
				t.Fatal(err)
			}
			src.Close()
		}
		if len(warnings) != 1 {
			t.Fatalf("warnings: %v", warnings)
		}
		var refused *objstore.Error
		if err := warnings[0].err; !errors.As(err, &refused) || refused.Status != 403 ||
			!strings.HasPrefix(refused.URL, s.url("b.tif.")) {
			t.Errorf("the warning is about %v", err)
		}
	})
	t.Run("a server error is an error", func(t *testing.T) {
		s.status["/b.tif.msk"] = 500
		_, err := newStores(t, "").Open(t.Context(), s.url("b.tif"))
		wantStoreError(t, err, s.url("b.tif.msk"), 500)
	})
	t.Run("a URL with a query has no sidecars", func(t *testing.T) {
		s.reset()
		src, err := newStores(t, "").Open(t.Context(), s.url("b.tif?version=1"))
		if err != nil {
			t.Fatal(err)
		}
		src.Close()
		if diff := cmp.Diff([]string{"GET /b.tif"}, s.asked); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRemoteArray(t *testing.T) {
	s := newShop(t)
	px := make([]int16, 3*40*50)
	for i := range px {
		px[i] = int16(i * 7)
	}
	header, err := npy.Header{Elem: npy.ElemOfDType(ndarray.Int16), Shape: []int{3, 40, 50}}.Append(nil, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("a.npy"), append(header, ndarray.BytesOf(px)...), 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := newStores(t, "").Open(t.Context(), s.url("a.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst := ndarray.New(ndarray.Int16, 1, 5, 6)
	if err := src.Read(t.Context(), []int{3}, raster.Window{Col: 10, Row: 20, Width: 6, Height: 5}, dst); err != nil {
		t.Fatal(err)
	}
	if got, want := ndarray.Slice[int16](dst)[7], px[2*2000+21*50+11]; got != want {
		t.Errorf("%d, not %d", got, want)
	}
}

func TestErrorsHaveNoSecrets(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("b.tif"), testGrid, 1, 2, nil)
	if err := os.WriteFile(s.path("text.tif"), []byte("no raster"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.status["/closed.tif"] = 403
	at := strings.Replace(s.URL, "http://", "http://user:hunter2@", 1)
	for name, c := range map[string]struct {
		url    string
		status int   // of an *objstore.Error
		cause  error // nil: of no kind
	}{
		"missing":       {at + "/none.tif?sig=hunter2", 404, fs.ErrNotExist},
		"refused":       {at + "/closed.tif?X-Amz-Signature=hunter2", 403, fs.ErrPermission},
		"not a raster":  {at + "/text.tif?token=hunter2", -1, raster.ErrFormat},
		"no server":     {"http://user:hunter2@127.0.0.1:1/a.tif", 0, syscall.ECONNREFUSED},
		"unknown store": {"ftp://user:hunter2@h/a.tif", -1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			job := ratio(c.url, s.url("b.tif"), filepath.Join(t.TempDir(), "out.tif"))
			job.Open = newStores(t, "").Open
			_, err := apply.Run(t.Context(), job)
			if err == nil || c.cause != nil && !errors.Is(err, c.cause) {
				t.Fatalf("%v, which should be %v", err, c.cause)
			}
			if e := new(objstore.Error); c.status >= 0 && (!errors.As(err, &e) || e.Status != c.status) {
				t.Errorf("%v, which should be an answer %d", err, c.status)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestFilesAndBlocksHaveNoSecrets(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	dir := t.TempDir()
	url := strings.Replace(s.url("a.tif?X-Amz-Signature=hunter2&v=3"), "http://", "http://user:hunter2@", 1)
	job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(url)},
		Outputs: map[string]apply.Output{"out": {Path: filepath.Join(dir, "out.tif")}},
		Open:    newStores(t, filepath.Join(dir, "stage")).Open,
		Func: func(_ context.Context, b *apply.Block) error {
			if got, want := b.Paths("a"), []string{s.url("a.tif?v=3")}; !cmp.Equal(got, want) {
				return fmt.Errorf("the file is %q", got)
			}
			b.SetOut("out", b.In("a"))
			if b.Number > 0 {
				return nil
			}
			spool, err := os.ReadFile(filepath.Join(dir, ".out.tif.leat-part"))
			if err == nil && strings.Contains(string(spool), "hunter2") {
				err = errors.New("the spool has the secret")
			}
			return err
		}}
	p, err := apply.MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(p.Inputs); strings.Contains(text, "hunter2") || !strings.Contains(text, "a.tif?v=3") {
		t.Errorf("the plan says %s", text)
	}
	mustRun(t, job)
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "hunter2") {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStatusWhileStaging(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	dir := t.TempDir()
	job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.url("a.tif"))},
		Outputs:     map[string]apply.Output{"out": {Path: filepath.Join(dir, "out.tif")}},
		Expressions: map[string]string{"out": "a"}, Open: newStores(t, filepath.Join(dir, "stage")).Open}
	s.delay = 600 * time.Millisecond
	run, err := apply.Start(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	staging := false
	for ended := false; !ended; {
		staging = staging || run.Status().Stage == "staging"
		select {
		case <-run.Done():
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if _, err := run.Wait(); err != nil || !staging {
		t.Errorf("%v, staging was shown: %v", err, staging)
	}
}

func TestInputsOpenAtOnce(t *testing.T) {
	s := newShop(t)
	small := testGrid
	small.Width, small.Height = 100, 80
	in := apply.Input{List: true}
	for i := range 24 {
		name := fmt.Sprintf("%d.tif", i)
		scene(t, s.path(name), small, 1, uint64(i), nil)
		in.Files = append(in.Files, s.url(name))
	}
	// No request has a response before eight files were requested.
	var mu sync.Mutex
	asked, met := map[string]bool{}, make(chan struct{})
	s.before = func(r *http.Request) {
		mu.Lock()
		if name := path.Base(r.URL.Path); !asked[name] {
			if asked[name] = true; len(asked) == 8 {
				close(met)
			}
		}
		mu.Unlock()
		select {
		case <-met:
		case <-time.After(20 * time.Second):
			t.Error("files are opened one after the other")
		}
	}
	mustRun(t, apply.Job{Inputs: map[string]apply.Input{"t": in},
		Outputs:     map[string]apply.Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif")}},
		Expressions: map[string]string{"out": "mean(t)"}, Open: newStores(t, "").Open})
}

func TestOpenLocalFiles(t *testing.T) {
	s := newShop(t)
	name := "a #1?.tif"
	scene(t, s.path(name), testGrid, 1, 1, nil)
	for url, want := range map[string]string{
		s.path(name):   s.path(name),
		"a/b.tif":      "a/b.tif",
		"s3://b/a.tif": "",
		"FILE://" + strings.NewReplacer("#", "%23", "?", "%3F", " ", "%20").Replace(s.path(name)): s.path(name),
	} {
		if got, err := LocalPath(url); got != want || err != nil {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	for _, bad := range []string{"file://host/a.tif", "file:///a/"} {
		if _, err := LocalPath(bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	src, err := newStores(t, "").Open(t.Context(), s.path(name))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if _, ok := src.(apply.Remote); ok {
		t.Error("it is remote")
	}
}

func TestStagedFileIsReadFromDisk(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	scene(t, s.path("b.tif"), testGrid, 1, 2, nil)
	dir := t.TempDir()
	run := func(name string, window *block.Window) *apply.Result {
		s.reset()
		job := ratio(s.url("a.tif"), s.url("b.tif"), filepath.Join(dir, name))
		job.Open = newStores(t, filepath.Join(dir, "stage")).Open
		job.Controls.Window = window
		return mustRun(t, job)
	}
	w := &block.Window{Col: 5, Row: 7, Width: 40, Height: 30}
	access := func(res *apply.Result) string { return res.Plan.Inputs[0].Access }
	if a := access(run("before.tif", w)); a != "in pieces" {
		t.Errorf("before it is staged a window is read %s", a)
	}
	want, err := os.ReadFile(filepath.Join(dir, "before.tif"))
	if err != nil {
		t.Fatal(err)
	}
	run("whole.tif", nil)
	if a := access(run("after.tif", w)); a != "staged" {
		t.Errorf("afterwards it is read %s", a)
	}
	if got := s.sent("a.tif"); got != 32<<10 {
		t.Errorf("%d bytes came, more than the header", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "after.tif")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes than in pieces (%v)", err)
	}
}
