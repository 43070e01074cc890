package apply

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/apply/internal/exec"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/fault"
	"leat/internal/worker/client"
	"leat/raster"
	"leat/worker/subprocess"
)

// oneInput returns a job that copies the file at path into dir, in 100 blocks of which number stop
// fails; none if it is negative.
func oneInput(path, dir string, stop int) Job {
	return Job{Inputs: map[string]Input{"a": File(path)}, Version: "1", Concurrency: Concurrency{Workers: 1},
		Outputs:  map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), TileSize: 64}},
		Controls: Controls{WindowWidth: 64, WindowHeight: 64},
		Func: func(_ context.Context, b *Block) error {
			if b.Number == stop {
				return errStopped
			}
			b.SetOut("out", b.In("a"))
			return nil
		}}
}

var errStopped = errors.New("enough")

// stopped runs a job that fails with errStopped and leaves a spool.
func stopped(t *testing.T, job Job) *outcome.IncompleteError {
	t.Helper()
	_, err := Run(t.Context(), job)
	var left *outcome.IncompleteError
	if !errors.Is(err, errStopped) || !errors.As(err, &left) {
		t.Fatalf("%T: %v", err, err)
	}
	return left
}

// replace replaces the file by a copy with another time.
func replace(t *testing.T, path string) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(path+".new", fileBytes(t, path), 0o600), os.Chtimes(path+".new", past, past),
		os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// asMask makes an output a valid .msk.
func asMask(o *Output) { o.Metadata = map[string]string{"INTERNAL_MASK_FLAGS_1": "2"} }

// inputWithMask makes a file of noise with a mask and metadata as sidecars.
func inputWithMask(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.tif")
	write(t, path, mapGrid(resumeSide, resumeSide, 0, 0), terrain[uint16](resumeSide, resumeSide, 1), nil)
	mask := noisy(resumeSide, resumeSide, 2)
	for i := range mask {
		mask[i] = 255 * (mask[i] & 1)
	}
	write(t, path+".tif", mapGrid(resumeSide, resumeSide, 0, 0), mask, asMask)
	if err := errors.Join(os.Rename(path+".tif", path+".msk"),
		os.WriteFile(path+".aux.xml", []byte(auxOfScale(2)), 0o600)); err != nil {
		t.Fatal(err)
	}
	if src := open(t, path); src.Info().Mask != raster.MaskDataset || src.Info().Bands[0].Scale != 2 {
		t.Fatalf("%+v", src.Info()) // otherwise the tests would prove nothing
	}
	return path
}

func auxOfScale(scale int) string {
	return fmt.Sprintf(`<PAMDataset><PAMRasterBand band="1"><Offset>0</Offset><Scale>%d</Scale></PAMRasterBand></PAMDataset>`, scale)
}

func TestResumeRejectsReplacedInput(t *testing.T) {
	for _, suffix := range []string{"", ".msk", ".aux.xml"} {
		path, dir := inputWithMask(t), t.TempDir()
		job := oneInput(path, dir, 40)
		work, once := job.Func, sync.Once{}
		job.Func = func(ctx context.Context, b *Block) error {
			once.Do(func() { replace(t, path+suffix) }) // before there is a header
			return work(ctx, b)
		}
		stopped(t, job)
		again := oneInput(path, dir, -1)
		again.Resume = true
		failRun(t, again, "can't be continued: input a: "+path+suffix+" was changed at ")
	}
}

func TestReopenFileReplacedDuringOpen(t *testing.T) {
	path, dir := inputWithMask(t), t.TempDir()
	for _, suffix := range []string{"", ".msk"} {
		for times, ok := range map[int]bool{1: true, 1000: false} {
			job, opened := oneInput(path, dir, -1), 0
			job.Open = func(ctx context.Context, path string) (raster.Source, error) {
				src, err := resolve.OpenRaster(path)
				if opened++; opened <= times {
					replace(t, path+suffix)
				}
				return src, err
			}
			r, _, err := prepare(t.Context(), &job, nil)
			if !ok {
				wantError(t, err, path, "is being written to")
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if now := resolve.LocalVersion(path); opened != 2 || !reflect.DeepEqual(r.Inputs.Files[0].Version, now) {
				t.Errorf("opened %d times, %+v is not %+v", opened, r.Inputs.Files[0].Version, now)
			}
			if err := r.Inputs.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestResumeRejectsChangedScale(t *testing.T) {
	path, dir := inputWithMask(t), t.TempDir()
	job := oneInput(path, dir, 40)
	job.Controls.Unscale = false
	stopped(t, job)
	st, err := os.Stat(path + ".aux.xml")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path+".aux.xml", []byte(auxOfScale(3)), 0o600),
		os.Chtimes(path+".aux.xml", st.ModTime(), st.ModTime())); err != nil {
		t.Fatal(err)
	}
	again := oneInput(path, dir, -1)
	again.Resume = true
	failRun(t, again, "input a: the scale was 2 and is 3")
}

func TestFileURLVersion(t *testing.T) {
	path, dir := inputWithMask(t), t.TempDir()
	fromURL := func(stop int) Job {
		job := oneInput("file://"+path, dir, stop)
		job.Open = func(_ context.Context, url string) (raster.Source, error) {
			return resolve.OpenRaster(strings.TrimPrefix(url, "file://"))
		}
		return job
	}
	left := stopped(t, fromURL(40))
	again := oneInput(path, dir, -1) // the same file
	again.Resume = true
	whole := fileBytes(t, left.Paths[0])
	if res := mustRun(t, again); res.Resumed != left.Done {
		t.Errorf("%d blocks were resumed, not %d", res.Resumed, left.Done)
	}
	if err := os.WriteFile(left.Paths[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	replace(t, path)
	again = fromURL(-1)
	again.Resume = true
	failRun(t, again, "input a: "+path+" was changed at ")
}

func TestResumeRejectsUnknownVersion(t *testing.T) {
	path, dir := inputWithMask(t), t.TempDir()
	opener := func(context.Context, string) (raster.Source, error) { return resolve.OpenRaster(path) }
	for name, want := range map[string]string{"/vsimem/of-gdal": "is not a regular file, or consists of files that are not", "http://a.example/in.tif": "identifies no version"} {
		job := oneInput(name, dir, 40)
		job.Open = opener
		stopped(t, job)
		job = oneInput(name, dir, -1)
		job.Open, job.Resume = opener, true
		failRun(t, job, name, want, " can't be detected")
	}
	// The caller is responsible for an open source.
	dir = t.TempDir()
	src := open(t, path)
	for _, stop := range []int{40, -1} {
		job := oneInput("/vsimem/given", dir, stop)
		job.Inputs["a"] = Input{Files: []string{"/vsimem/given"}, Source: src}
		if job.Resume = stop < 0; !job.Resume {
			stopped(t, job)
		} else if res := mustRun(t, job); res.Resumed != 40 {
			t.Errorf("%d blocks were resumed", res.Resumed)
		}
	}
}

// parts is a raster of many files, like those of GDAL.
type parts struct {
	raster.Source
	names []string
}

func (p parts) FileNames() ([]string, error) { return p.names, nil }

func TestVersionOfAllRasterFiles(t *testing.T) {
	path, dir := inputWithMask(t), t.TempDir()
	other := write(t, filepath.Join(dir, "part.tif"), mapGrid(8, 8, 0, 0), terrain[uint8](8, 8, 1), nil)
	opener := func(_ context.Context, path string) (raster.Source, error) {
		src, err := resolve.OpenRaster(path)
		return parts{src, []string{path, path + ".aux.xml", path + ".ovr", other}}, err
	}
	job := oneInput(path, dir, 40)
	job.Open = opener
	stopped(t, job)
	replace(t, other)
	job = oneInput(path, dir, -1)
	job.Open, job.Resume = opener, true
	err := failRun(t, job, "input a: "+other+" was changed at ")
	if strings.Count(err.Error(), "changed") != 1 {
		t.Error(err)
	}
}

func TestWorkerRejectsChangedInput(t *testing.T) {
	path := inputWithMask(t)
	restore := func(change func()) error {
		t.Helper()
		job := oneInput(path, t.TempDir(), -1)
		job.Func, job.Function, job.Functions = nil, "copies", Functions{"copies": {Func: job.Func}}
		job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 1, Reading: ReadByWorkers}
		r, p, err := prepare(t.Context(), &job, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Inputs.Close()
		change() // before the job is sent to workers
		e, err := exec.NewSpec(r.Values, p, r.Inputs, r.Outputs)
		if err != nil {
			t.Fatal(err)
		}
		text, err := e.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		w, err := openWorker(t.Context(), &WorkOptions{Functions: job.Functions}, client.JoinInfo{Job: text})
		if err == nil {
			_, err = w.Close()
		}
		return err
	}
	write := func(name, text string) func() {
		return func() {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := restore(func() {}); err != nil {
		t.Error(err)
	}
	// Viewers write statistics into a sidecar.
	statistics := strings.Replace(auxOfScale(2), "<Offset>",
		`<Metadata><MDI key="STATISTICS_MEAN">3</MDI></Metadata><Offset>`, 1)
	if err := restore(write(path+".aux.xml", statistics)); err != nil {
		t.Error(err)
	}
	wantError(t, restore(write(path+".aux.xml", auxOfScale(3))), "input a: "+path+" has ", "metadata were changed")
	wantError(t, restore(func() { replace(t, path) }), "input a: "+path+" was changed at ")
	wantError(t, restore(func() { replace(t, path+".msk") }), "input a: "+path+".msk was changed at ")
	wantError(t, restore(func() {
		if err := os.Rename(path+".msk", path+".kept"); err != nil {
			t.Fatal(err)
		}
	}), "input a: "+path+".msk is not here, and was there for the run")
	wantError(t, restore(func() {
		if err := os.Rename(path+".kept", path+".msk"); err != nil {
			t.Fatal(err)
		}
	}), "input a: "+path+".msk is here, and was not there for the run")
}

func TestCancelDuringResume(t *testing.T) {
	dir := t.TempDir()
	job, spool, whole := unfinishedRun(t, "nearest", dir, 60)
	job.Resume = true
	for range 2 {
		ctx, cancel := context.WithCancelCause(t.Context())
		fault.Set(func(point string) error {
			if point == "apply.scanned" {
				cancel(errStopped)
			}
			return nil
		})
		_, err := Run(ctx, job)
		fault.Set(nil)
		var left *outcome.IncompleteError
		if !errors.Is(err, errStopped) || !errors.As(err, &left) || left.Done != -1 || left.Paths[0] != spool {
			t.Fatalf("%v: %+v", err, left)
		}
		if n := len(fileBytes(t, spool)); n != len(whole) {
			t.Errorf("%d bytes of %d are left", n, len(whole))
		}
	}
	if res := mustRun(t, job); res.Resumed != 60 {
		t.Errorf("%d blocks were resumed", res.Resumed)
	}
	noTraces(t, dir)
}

type mapParams struct {
	Weights map[string]float64
	Fill    float64
}

func TestResumeComparesParams(t *testing.T) {
	path, dir := inputWithMask(t), t.TempDir()
	make := func(stop int, p mapParams) Job {
		job := oneInput(path, dir, stop)
		job.Functions = Functions{"weighs": {Func: job.Func, Params: Gob[mapParams]()}}
		job.Func, job.Function, job.Params = nil, "weighs", p
		return job
	}
	params := func(n int) mapParams {
		p := mapParams{map[string]float64{"none": math.NaN()}, math.NaN()}
		for i := range n {
			p.Weights[fmt.Sprint("a long name for weight ", i)] = float64(i)
		}
		return p
	}
	left := stopped(t, make(40, params(50)))
	whole := fileBytes(t, left.Paths[0])
	other := params(50)
	other.Weights["a long name for weight 7"] = 8
	for _, p := range []mapParams{other, params(49), {nil, math.NaN()}} {
		again := make(-1, p)
		again.Resume = true
		failRun(t, again, "the parameters of the function differ")
	}
	for range 5 { // in random order each time
		if err := os.WriteFile(left.Paths[0], whole, 0o600); err != nil {
			t.Fatal(err)
		}
		again := make(-1, params(50))
		again.Resume = true
		if res := mustRun(t, again); res.Resumed != left.Done {
			t.Errorf("%d blocks were resumed, not %d", res.Resumed, left.Done)
		}
	}
}
