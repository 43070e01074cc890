package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"leat/apply/outcome"
	"leat/block"
	"leat/internal/proctest"
	"leat/ndarray"
)

// resumeCase is a job whose run is interrupted and resumed. inputs is the directory of
// resumeInputs.
type resumeCase func(inputs, dir string) Job

const resumeSide = 640 // 100 blocks of 64 x 64

var resumeCases = map[string]resumeCase{
	"nearest": func(_, dir string) Job {
		return sliceJob(mapGrid(resumeSide, resumeSide, 0, 0), terrain[uint16](resumeSide, resumeSide, 3),
			Output{Path: filepath.Join(dir, "out.tif"), TileSize: 64, Overviews: []int{2, 4}})
	},
	"two bands, average, by pixel, zstd": func(_, dir string) Job {
		px := append(terrain[int16](resumeSide, resumeSide, 1),
			holes(terrain[int16](resumeSide, resumeSide, 2), resumeSide, 9, -5, 3)...)
		return sliceJob(mapGrid(resumeSide, resumeSide, 0, 0), px,
			Output{Path: filepath.Join(dir, "out.tif"), TileSize: 64, Nodata: "-5",
				PixelInterleave: true, Compression: "zstd", COG: true, OverviewMethod: "average"})
	},
	"two bands, mode, no statistics": func(_, dir string) Job {
		px := append(noisy(resumeSide, resumeSide, 1), ramp(resumeSide, resumeSide)...)
		return sliceJob(mapGrid(resumeSide, resumeSide, 0, 0), px,
			Output{Path: filepath.Join(dir, "out.tif"), TileSize: 64, Overviews: []int{2, 8},
				OverviewMethod: "mode", NoStatistics: true, TempDir: dir})
	},
	// The choice is open until the last rows, and differs from the coding used until then.
	"late choice": func(_, dir string) Job {
		px := make([]uint8, resumeSide*resumeSide)
		for i := range px {
			if i%resumeSide == 5 { // not constant, but below a tenth of valid pixels
				px[i] = uint8(i / resumeSide)
			}
		}
		copy(px[resumeSide*448:], noisy(resumeSide, resumeSide, 3)[resumeSide*448:])
		return sliceJob(mapGrid(resumeSide, resumeSide, 0, 0), px,
			Output{Path: filepath.Join(dir, "out.tif"), TileSize: 64, Nodata: "0", Overviews: []int{2, 4}})
	},
	"focal": func(inputs, dir string) Job {
		return Job{
			Inputs: map[string]Input{"red": File(filepath.Join(inputs, "red.tif")),
				"nir": File(filepath.Join(inputs, "nir.tif"))},
			Expressions: map[string]string{"mean": "focal_mean(focal_max(nir - red, disk(3)), 31)", "moved": "shift(red, -90, 5)"},
			Outputs: map[string]Output{"mean": {Path: filepath.Join(dir, "mean.tif"), TileSize: 64},
				"moved": {Path: filepath.Join(dir, "moved.tif"), TileSize: 64}},
			Controls: Controls{Margin: block.MarginReflect},
		}
	},
	"three expressions": func(inputs, dir string) Job {
		return Job{
			Inputs: map[string]Input{"red": File(filepath.Join(inputs, "red.tif")),
				"nir": File(filepath.Join(inputs, "nir.tif"))},
			Expressions: map[string]string{"ndvi": "(nir - red) / (nir + red)", "both": "[red, nir + 1]",
				"low": "nir - red"},
			Outputs: map[string]Output{
				"ndvi": {Path: filepath.Join(dir, "ndvi.tif"), OverviewMethod: "average", TileSize: 64,
					Overviews: []int{2, 8}},
				"both": {Path: filepath.Join(dir, "both.tif"), PixelInterleave: true, TileSize: 64, COG: true,
					Compression: "zstd"},
				"low": {Path: filepath.Join(dir, "low.tif"), Type: ndarray.Uint8, OverviewMethod: "mode",
					TileSize: 64},
			},
		}
	},
	"emitted values": func(_, dir string) Job {
		job := sliceJob(mapGrid(resumeSide, resumeSide, 0, 0), terrain[float32](resumeSide, resumeSide, 3),
			Output{Path: filepath.Join(dir, "out.tif"), TileSize: 64})
		work := job.Func
		job.Func = func(ctx context.Context, b *Block) error {
			for i := range b.Number % 3 {
				b.Emit(fmt.Sprintf("%d of %d", i, b.Number))
			}
			return work(ctx, b)
		}
		job.Emits, job.Merge = Gob[string](), func(int, any) error { return nil }
		return job
	},
}

// resumeInputs makes the inputs of resumeCases.
func resumeInputs(t *testing.T) string {
	dir := t.TempDir()
	for i, name := range []string{"red.tif", "nir.tif"} {
		px := holes(terrain[uint16](resumeSide, resumeSide, uint64(i)), resumeSide, 50, 0, uint64(i))
		write(t, filepath.Join(dir, name), mapGrid(resumeSide, resumeSide, 0, 0), px,
			func(o *Output) { o.Nodata, o.Scale, o.Offset, o.Unit = "0", 0.0001, -0.1, name })
	}
	return dir
}

// resumeJob returns a case's job in blocks of 64 x 64 pixels; calls counts the computed blocks,
// merged lists the merged values.
func resumeJob(name, inputs, dir string, workers int) (job Job, calls *atomic.Int64, merged *[]string) {
	job, calls, merged = resumeCases[name](inputs, dir), new(atomic.Int64), new([]string)
	job.Controls.WindowWidth, job.Controls.WindowHeight, job.Concurrency.Workers = 64, 64, workers
	if work := job.Func; work != nil {
		job.Func = func(ctx context.Context, b *Block) error {
			calls.Add(1)
			proctest.Point("block")
			return work(ctx, b)
		}
	}
	if job.Merge != nil {
		job.Merge = func(block int, v any) error {
			*merged = append(*merged, fmt.Sprint(block, ": ", v))
			return nil
		}
	}
	return job, calls, merged
}

// resumedOutput is a child that runs a case: its name, the directories of inputs and outputs, the
// number of workers, and whether it resumes.
func resumedOutput(args []string) error {
	workers, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	job, _, _ := resumeJob(args[0], args[1], args[2], workers)
	job.Resume = args[4] == "true"
	_, err = Run(context.Background(), job)
	return err
}

// truth is the result of an uninterrupted run of a case.
type truth struct {
	files  map[string][]byte
	merged []string
	counts []string
}

func runTruth(t *testing.T, name, inputs string) *truth {
	t.Helper()
	job, _, merged := resumeJob(name, inputs, t.TempDir(), 2)
	w := &truth{files: map[string][]byte{}}
	res := mustRun(t, job)
	for n, o := range job.Outputs {
		w.files[n] = fileBytes(t, o.Path)
	}
	w.merged, w.counts = *merged, countsOf(res)
	return w
}

func countsOf(res *Result) (list []string) {
	for _, o := range res.Outputs {
		list = append(list, fmt.Sprint(o.Name, o.Counts, o.Warnings, o.Coding))
	}
	return list
}

// check resumes the case in dir, and compares all results with the truth.
func (w *truth) check(t *testing.T, what, name, inputs, dir string, workers int) *Result {
	t.Helper()
	job, calls, merged := resumeJob(name, inputs, dir, workers)
	job.Resume = true
	res := mustRun(t, job)
	for n, o := range job.Outputs {
		sameFileBytes(t, what, o.Path, w.files[n])
	}
	total := res.Plan.Blocks.Count()
	if job.Expressions == nil && int(calls.Load()) != total-res.Resumed || res.Blocks != total ||
		res.Pixels != resumeSide*resumeSide {
		t.Errorf("%s: %d blocks were computed, %d resumed of %d; %d done with %d pixels", what, calls.Load(),
			res.Resumed, total, res.Blocks, res.Pixels)
	}
	if !slices.Equal(*merged, w.merged) {
		t.Errorf("%s: merged %q\nnot %q", what, *merged, w.merged)
	}
	if got := countsOf(res); !slices.Equal(got, w.counts) {
		t.Errorf("%s: counted %q\nnot %q", what, got, w.counts)
	}
	noTraces(t, dir)
	return res
}

func TestResumeAfterKill(t *testing.T) {
	inputs := resumeInputs(t)
	points := []string{"apply.data", "apply.record", "apply.choice", "apply.laid-out"}
	for name := range resumeCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := runTruth(t, name, inputs)
			rounds := 12
			if testing.Short() {
				rounds = 4
			}
			resumed := 0
			for round := range rounds {
				dir := t.TempDir()
				workers := []int{1, 2, 8}[round%3]
				point, pass := points[0], 1+rand.IntN(130)
				if round%4 < len(points) {
					point = points[round%4]
				}
				if round%4 > 1 {
					pass = 1
				}
				what := fmt.Sprintf("killed at pass %d of %q with %d workers", pass, point, workers)
				c := proctest.New("resumed output", name, inputs, dir, strconv.Itoa(workers), "false").KillAt(point,
					pass).Start(t)
				killed, said, err := c.Wait()
				if !killed && err != nil {
					t.Fatalf("%s: %v\n%s", what, err, said)
				}
				if round%2 == 1 { // a second time, during resuming
					again := proctest.New("resumed output", name, inputs, dir, strconv.Itoa(workers),
						"true").KillAt([]string{"apply.scanned", "apply.record"}[round/2%2], 1+rand.IntN(3)).Start(t)
					if killed, said, err := again.Wait(); !killed && err != nil {
						t.Fatalf("%s: %v\n%s", what, err, said)
					}
				}
				resumed += want.check(t, what, name, inputs, dir, []int{8, 1, 2}[round%3]).Resumed
			}
			if resumed == 0 {
				t.Error("no block was resumed")
			}
			t.Logf("%d blocks were resumed in %d rounds", resumed, rounds)
		})
	}
}

func TestResumeAfterFailure(t *testing.T) {
	stop := errors.New("enough")
	for name := range resumeCases {
		if name == "three expressions" || name == "focal" {
			continue // its blocks do not fail
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := runTruth(t, name, "")
			for round := range 6 {
				dir := t.TempDir()
				job, _, _ := resumeJob(name, "", dir, 1+round)
				work, at := job.Func, int64(10+17*round)
				var calls atomic.Int64
				job.Func = func(ctx context.Context, b *Block) error {
					if calls.Add(1) == at {
						return stop
					}
					return work(ctx, b)
				}
				_, err := Run(t.Context(), job)
				var left *outcome.IncompleteError
				if !errors.Is(err, stop) || !errors.As(err, &left) || left.Err.Error() != err.Error() {
					t.Fatal("it is not an IncompleteError:", err)
				}
				if left.Done < 1 || left.Done >= left.Total || left.Total != 100 || len(left.Paths) != 1 {
					t.Errorf("%+v after %d blocks", left, at-1)
				}
				if st, err := os.Stat(left.Paths[0]); err != nil || st.Size() != left.Bytes {
					t.Errorf("%v: %v, not %d bytes", err, st, left.Bytes)
				}
				if res := want.check(t, fmt.Sprint("round ", round), name, "", dir, 2); res.Resumed != left.Done {
					t.Errorf("%d blocks were resumed, %d were said to be there", res.Resumed, left.Done)
				}
			}
		})
	}
}
