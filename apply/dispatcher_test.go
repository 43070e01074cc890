package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"leat/apply/outcome"
	"leat/ndarray"
	"leat/worker"
	"leat/worker/subprocess"
)

// testFunctions are the functions of the test binary, in workers too.
var testFunctions = Functions{
	"focal": {Func: focalMean, Setup: countSetup, Close: func(any) (any, error) { return nil, nil }, Params: Gob[focalParams](),
		Emits: Gob[blockSum]()},
	"slow":   {Func: slowDouble, Params: Gob[time.Duration]()},
	"waits":  {Func: waitsForFile, Params: Gob[string]()},
	"fails":  {Func: failsAt, Params: Gob[int]()},
	"emits":  {Func: emitsNumber, Emits: Gob[int]()},
	"spoils": {Func: spoilsInputs},
	"ends its goroutine": {Func: func(_ context.Context, b *Block) error {
		if b.Number == 3 {
			runtime.Goexit()
		}
		b.SetOut("out", b.In("red"))
		return nil
	}},
	"Setup goexit": {Func: emitsOne, Setup: func(context.Context, WorkerInfo) (any, error) {
		runtime.Goexit()
		return nil, nil
	}},
	"untyped":     {Func: halves},
	"spread":      {Func: spread},
	"column sums": {Func: columnSums, Params: Gob[int](), Emits: Gob[map[int][]float64]()},
	"records":     {Func: emitsRecord, Params: Gob[int](), Emits: plainBytes{}},
}

// plainBytes is a codec for byte slices.
type plainBytes struct{}

func (plainBytes) Encode(v any) ([]byte, error) { return v.([]byte), nil }
func (plainBytes) Decode(b []byte) (any, error) { return b, nil }

// emitsRecord emits as many bytes as the parameters say, each equal to the block's number. Block 0
// is done last.
func emitsRecord(_ context.Context, b *Block) error {
	if b.Number == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	b.Emit(bytes.Repeat([]byte{byte(b.Number)}, b.Params().(int)))
	for name := range b.names.outputs {
		b.SetOut(name, b.In("red"))
	}
	return nil
}

type focalParams struct{ Factor float64 }

type blockSum struct {
	Block int
	Sum   float64
}

func countSetup(_ context.Context, w WorkerInfo) (any, error) {
	if w.Workers < 1 || w.Worker < 0 {
		return nil, fmt.Errorf("worker %d of %d", w.Worker, w.Workers)
	}
	return "set up", nil
}

// focalMean writes the mean of 3 x 3 pixels times a factor, and the block's red pixels unchanged to
// another output.
func focalMean(_ context.Context, b *Block) error {
	if b.State() != "set up" {
		return errors.New("there was no Setup")
	}
	p := b.Params().(focalParams)
	red, valid := Band[uint16](b, "red", 1), b.Valid("red").Raw()
	out := Out[float32](b, "mean")
	cols, sum := b.Columns(), 0.0
	for y := 1; y < b.Rows()-1; y++ {
		for x := 1; x < cols-1; x++ {
			s, n := 0.0, 0.0
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if i := (y+dy)*cols + x + dx; valid[i] != 0 {
						s += float64(red[i])
						n++
					}
				}
			}
			if n > 0 {
				out[y*cols+x] = float32(s / n * p.Factor)
				sum += s / n
			} else {
				out[y*cols+x] = -1
			}
		}
	}
	b.Emit(blockSum{b.Number, sum})
	b.SetOut("copy", b.In("red"))
	return nil
}

func slowDouble(_ context.Context, b *Block) error {
	time.Sleep(b.Params().(time.Duration))
	out := Out[uint16](b, "out")
	for i, v := range Band[uint16](b, "red", 1) {
		out[i] = 2 * v
	}
	return nil
}

var errMarsh = errors.New("the marsh is flooded")

func failsAt(_ context.Context, b *Block) error {
	switch at := b.Params().(int); {
	case b.Number == at:
		return errMarsh
	case b.Number == -at:
		panic("a heron")
	}
	b.SetOut("out", b.In("red"))
	return nil
}

func emitsNumber(_ context.Context, b *Block) error {
	b.Emit(b.Number)
	return nil
}

// spoilsInputs writes to its inputs, which another worker reads again when this one is lost.
func spoilsInputs(_ context.Context, b *Block) error {
	red, out := Band[uint16](b, "red", 1), Out[uint16](b, "out")
	for i, v := range red {
		red[i] = v + 1
		out[i] = red[i]
	}
	return nil
}

func halves(_ context.Context, b *Block) error {
	out := b.NewOut(ndarray.Float64, 2)
	for i, v := range Band[uint16](b, "red", 1) {
		ndarray.Slice[float64](out.At(0))[i] = float64(v) / 2
		ndarray.Slice[float64](out.At(1))[i] = -float64(v)
	}
	b.SetOut("out", out)
	return nil
}

// remoteSetups returns ways to run a job in worker processes on this machine.
func remoteSetups() []func(*Job) string {
	var list []func(*Job) string
	for _, n := range []int{1, 2, 3, 8} {
		for _, reading := range []Reading{ReadHere, ReadByWorkers} {
			list = append(list, func(j *Job) string {
				j.Concurrency = Concurrency{On: subprocess.New(nil), Workers: n, Reading: reading}
				return fmt.Sprintf("%d processes, reading %d", n, reading)
			})
		}
	}
	if testing.Short() {
		return []func(*Job) string{list[2], list[3]}
	}
	return list
}

func TestSameBytesWithWorkerProcesses(t *testing.T) {
	t.Parallel()
	red, nir := smallScene(t)
	inputs := map[string]Input{"red": File(red), "nir": File(nir)}
	jobs := map[string]func(dir string) Job{
		"expressions": func(dir string) Job {
			return Job{Inputs: inputs, Expressions: map[string]string{"ndvi": "(nir - red) / (nir + red)",
				"sum": "red + nir"},
				Outputs: map[string]Output{
					"ndvi": {Path: filepath.Join(dir, "ndvi.tif"), Nodata: "nan", COG: true,
						OverviewMethod: "average", TileSize: 128},
					"sum": {Path: filepath.Join(dir, "sum.tif"), Type: ndarray.Uint16, TileSize: 256,
						Overviews: []int{2, 4}},
				}}
		},
		"function with overlap, values and two outputs": func(dir string) Job {
			return Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "focal",
				Params: focalParams{1.5},
				Outputs: map[string]Output{
					"mean": {Path: filepath.Join(dir, "mean.tif"), Nodata: "-1", TileSize: 128},
					"copy": {Path: filepath.Join(dir, "copy.tif"), TileSize: 128},
				},
				Controls: Controls{Overlap: 1, WindowWidth: 256, WindowHeight: 256}}
		},
		"type and bands of the first block": func(dir string) Job {
			return Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "untyped",
				Outputs: map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), TileSize: 128,
					PixelInterleave: true, Compression: "zstd"}},
				Controls: Controls{WindowWidth: 256, WindowHeight: 256}}
		},
		"function that writes to its inputs": func(dir string) Job {
			return Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "spoils",
				Outputs:  map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), TileSize: 128}},
				Controls: Controls{WindowWidth: 128, WindowHeight: 128}}
		},
	}
	if testing.Short() { // the slow ones
		delete(jobs, "type and bands of the first block")
		delete(jobs, "function that writes to its inputs")
	}
	for name, make := range jobs {
		t.Run(name, func(t *testing.T) {
			run := func(change func(*Job)) (map[string][]byte, []blockSum) {
				dir := t.TempDir()
				job := make(dir)
				var merged []blockSum
				if job.Function == "focal" {
					job.Merge = func(_ int, v any) error { merged = append(merged, v.(blockSum)); return nil }
				}
				change(&job)
				mustRun(t, job)
				noTraces(t, dir)
				files := map[string][]byte{}
				for n, o := range job.Outputs {
					files[n] = fileBytes(t, o.Path)
				}
				return files, merged
			}
			want, values := run(func(*Job) {})
			for _, way := range remoteSetups() {
				var name string
				got, merged := run(func(j *Job) { name = way(j) })
				for n := range want {
					if !slices.Equal(got[n], want[n]) {
						t.Errorf("%s: output %s has other bytes", name, n)
					}
				}
				if !slices.Equal(merged, values) {
					t.Errorf("%s: merged %v instead of %v", name, merged, values)
				}
			}
		})
	}
}

func TestEmitFromWorkerProcesses(t *testing.T) {
	t.Parallel()
	red, _ := scene(t)
	var got []int
	mustRun(t, Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "emits",
		Merge:       func(b int, v any) error { got = append(got, b, v.(int)); return nil },
		Controls:    Controls{WindowWidth: 256, WindowHeight: 256},
		Concurrency: Concurrency{On: subprocess.New(nil), Workers: 2}})
	for i, v := range got {
		if v != i/2 {
			t.Fatalf("merged %v", got)
		}
	}
	if len(got) != 2*8*6 {
		t.Fatalf("merged %d numbers", len(got))
	}
}

func TestEmitOwnBlock(t *testing.T) {
	t.Parallel()
	red, _ := scene(t)
	for name, c := range map[string]struct {
		size    int
		outputs map[string]Output
	}{
		"with an output": {1000,
			map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif"), TileSize: 128}}},
		"large ones, without an output": {2 << 20, nil},
	} {
		t.Run(name, func(t *testing.T) {
			merged := 0
			mustRun(t, Job{Inputs: map[string]Input{"red": File(red)}, Outputs: c.outputs, Functions: testFunctions,
				Function: "records", Params: c.size,
				Merge: func(n int, v any) error {
					merged++
					if !bytes.Equal(v.([]byte), bytes.Repeat([]byte{byte(n)}, c.size)) {
						t.Errorf("block %d has another's value", n)
					}
					return nil
				},
				Controls:    Controls{WindowWidth: 256, WindowHeight: 256},
				Concurrency: Concurrency{On: subprocess.New(nil), Workers: 4}})
			if merged != 8*6 {
				t.Errorf("%d values were merged", merged)
			}
		})
	}
}

// slowRemote returns a job of 88 blocks in worker processes.
func slowRemote(red, out string, workers int, each time.Duration) Job {
	return Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "slow", Params: each,
		Outputs:     map[string]Output{"out": {Path: out, TileSize: 128, COG: true}},
		Controls:    Controls{WindowWidth: 128, WindowHeight: 192},
		Concurrency: Concurrency{On: subprocess.New(nil), Workers: workers}}
}

// remoteStatus returns the current status of the worker processes.
func remoteStatus(r *Running) worker.Status {
	if s := r.Status().Remote; s != nil {
		return *s
	}
	return worker.Status{}
}

func TestKilledWorkersSameBytes(t *testing.T) {
	t.Parallel()
	red, _ := scene(t)
	whole := filepath.Join(t.TempDir(), "whole.tif")
	job := slowRemote(red, whole, 0, 0)
	job.Concurrency = Concurrency{}
	mustRun(t, job)
	want := fileBytes(t, whole)
	kills, rounds := 0, 0
	enough := 50
	if testing.Short() {
		enough = 5
	}
	for ; kills < enough && rounds < 60; rounds++ {
		dir := t.TempDir()
		job := slowRemote(red, filepath.Join(dir, "out.tif"), 4, 3*time.Millisecond)
		if rounds%2 == 0 { // results are in shared memory
			out := job.Outputs["out"]
			out.Type, out.Bands = ndarray.Uint16, 1
			job.Outputs["out"] = out
		}
		r, err := Start(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		kills += killWorkers(r, 3) // of four
		if _, err := r.Wait(); err != nil {
			t.Fatalf("after %d kills: %v", kills, err)
		}
		sameFileBytes(t, "with killed workers", job.Outputs["out"].Path, want)
		noTraces(t, dir)
	}
	if kills < enough {
		t.Errorf("%d kills in %d rounds", kills, rounds)
	}
	t.Logf("%d kills in %d rounds", kills, rounds)
}

// killWorkers kills workers of a run at random moments, but never the last one, until the run has
// ended. It returns their number, at most n.
func killWorkers(r *Running, n int) (killed int) {
	for killed < n {
		select {
		case <-r.Done():
			return killed
		case <-time.After(time.Duration(rand.IntN(40)) * time.Millisecond):
		}
		var joined []int
		for _, w := range remoteStatus(r).Workers {
			if w.State == worker.StateJoined && w.PID > 0 {
				joined = append(joined, w.PID)
			}
		}
		if len(joined) > 1 && syscall.Kill(joined[rand.IntN(len(joined))], syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// TestStoppedWorkersSameBytes stops one worker until it is lost, and the others for moments. All
// encode into memory from which the run writes.
func TestStoppedWorkersSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("a stopped worker is lost after 10 s")
	}
	t.Parallel()
	red, _ := scene(t)
	whole := filepath.Join(t.TempDir(), "whole.tif")
	job := slowRemote(red, whole, 0, 0)
	job.Concurrency = Concurrency{}
	mustRun(t, job)
	dir := t.TempDir()
	job = slowRemote(red, filepath.Join(dir, "out.tif"), 3, 350*time.Millisecond)
	out := job.Outputs["out"]
	out.Type, out.Bands = ndarray.Uint16, 1
	job.Outputs["out"] = out
	r, err := Start(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	lost := stopWorkers(r)
	res, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if !lost || res.Workers.LostWorkers == 0 {
		t.Errorf("%d workers were lost", res.Workers.LostWorkers)
	}
	sameFileBytes(t, "with stopped workers", job.Outputs["out"].Path, fileBytes(t, whole))
	noTraces(t, dir)
}

// stopWorkers stops workers of a run at random moments until the run has ended: the first one until
// it is lost, the others for moments. It reports whether the first one was lost.
func stopWorkers(r *Running) (lost bool) {
	first := 0
	for {
		select {
		case <-r.Done():
			return lost
		case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
		}
		var joined []int
		for _, w := range remoteStatus(r).Workers {
			switch {
			case w.PID == first && w.State == worker.StateLost && !lost:
				lost = syscall.Kill(first, syscall.SIGCONT) == nil
			case w.PID != first && w.State == worker.StateJoined && w.Done > 0:
				joined = append(joined, w.PID)
			}
		}
		if len(joined) == 0 {
			continue
		}
		pid := joined[rand.IntN(len(joined))]
		if syscall.Kill(pid, syscall.SIGSTOP) != nil {
			continue
		}
		if first == 0 {
			first = pid
			continue
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

func TestAllWorkersLost(t *testing.T) {
	red, _ := scene(t)
	job := slowRemote(red, filepath.Join(t.TempDir(), "out.tif"), 2, time.Hour)
	job.Concurrency.ReplaceWorkers = -1
	r, err := Start(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for killed := map[int]bool{}; len(killed) < 2; { // a dead worker may still count as joined for a while
		select {
		case <-r.Done():
			t.Fatal("the run ended before its workers were killed")
		case <-time.After(10 * time.Millisecond):
		}
		for _, w := range remoteStatus(r).Workers {
			if w.State == worker.StateJoined && w.PID > 0 && syscall.Kill(w.PID, syscall.SIGKILL) == nil {
				killed[w.PID] = true
			}
		}
	}
	_, err = r.Wait()
	var lost *worker.LostError
	if !errors.As(err, &lost) {
		t.Fatalf("%v", err)
	}
	wantError(t, err, "subprocess-", "SIGKILL")
}

func TestReplacedWorkerSameBytes(t *testing.T) {
	t.Parallel()
	red, _ := scene(t)
	whole := filepath.Join(t.TempDir(), "whole.tif")
	job := slowRemote(red, whole, 0, 0)
	job.Concurrency = Concurrency{}
	mustRun(t, job)
	for _, reading := range []Reading{ReadHere, ReadByWorkers} {
		// On a busy machine a run may end before its worker is killed: the next has slower blocks.
		var lost int64
		for each := 5 * time.Millisecond; lost == 0 && each < 2*time.Second; each *= 4 {
			job := slowRemote(red, filepath.Join(t.TempDir(), "out.tif"), 1, each)
			job.Concurrency.Reading = reading
			r, err := Start(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			for killed := false; !killed; { // the only worker
				for _, w := range remoteStatus(r).Workers {
					if w.State == worker.StateJoined && w.Done > 5 {
						killed = syscall.Kill(w.PID, syscall.SIGKILL) == nil
					}
				}
				select {
				case <-r.Done():
					killed = true
				case <-time.After(time.Millisecond):
				}
			}
			res, err := r.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if lost = res.Workers.LostWorkers; lost != res.Workers.ReplacedWorkers {
				t.Errorf("reading %v: %d workers were lost, %d replaced", reading, lost, res.Workers.ReplacedWorkers)
			}
			sameFileBytes(t, "with a replaced worker", job.Outputs["out"].Path, fileBytes(t, whole))
		}
		if lost != 1 {
			t.Errorf("reading %v: %d workers were lost", reading, lost)
		}
	}
}

// waitsForFile computes block 0 only once the file exists that the parameter names.
func waitsForFile(ctx context.Context, b *Block) error {
	for b.Number == 0 {
		if _, err := os.Stat(b.Params().(string)); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	b.SetOut("out", b.In("red"))
	return nil
}

// One worker computes block 0 while the other, with nothing left to do, asks for more.
func TestCopiesOfBlocks(t *testing.T) {
	t.Parallel()
	red, _ := scene(t)
	for _, noCopies := range []bool{false, true} {
		gate := filepath.Join(t.TempDir(), "gate")
		job := slowRemote(red, filepath.Join(t.TempDir(), "out.tif"), 2, 0)
		job.Function, job.Params, job.Concurrency.NoCopies = "waits", gate, noCopies
		r, err := Start(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		idle := func(s worker.Status) bool {
			return s.Waiting == 0 && s.Polls > 0 && slices.ContainsFunc(s.Workers, func(w worker.WorkerStatus) bool {
				return w.Done > 0 && len(w.Held) == 0
			})
		}
		for s := remoteStatus(r); s.Copies == 0 && !(noCopies && idle(s)); s = remoteStatus(r) {
			select {
			case <-r.Done():
				_, err := r.Wait()
				t.Fatalf("the run ended without copies: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		res, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if n := res.Workers.Copies; (n == 0) != noCopies {
			t.Errorf("%d copies with NoCopies %v", n, noCopies)
		}
	}
}

func TestFunctionErrorInWorkerProcess(t *testing.T) {
	t.Parallel()
	red, _ := scene(t)
	for at, want := range map[int][]string{5: {"subprocess-", "block 5", errMarsh.Error()},
		-7: {"subprocess-", "block 7", "a heron"}} {
		dir := t.TempDir()
		job := Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "fails", Params: at,
			Outputs:     map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), TileSize: 128}},
			Controls:    Controls{WindowWidth: 128, WindowHeight: 128},
			Concurrency: Concurrency{On: subprocess.New(nil), Workers: 3}}
		err := failRun(t, job, want...)
		var f *worker.Failure
		if !errors.As(err, &f) {
			t.Fatalf("no Failure: %v", err)
		}
		if at < 0 && !strings.Contains(f.Stack, "failsAt") {
			t.Errorf("the stack is %q", f.Stack)
		}
		if host, err := os.Hostname(); err == nil && f.Host != host {
			t.Errorf("the host is %q", f.Host)
		}
	}
}

func TestGoexitInWorkerProcess(t *testing.T) {
	for function, stage := range map[string]string{"ends its goroutine": "computing", "Setup goexit": "setup"} {
		job := remoteJob(t, function)
		job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 2}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Run(ctx, job)
		var b *outcome.BlockError
		var p *outcome.PanicError
		if !errors.As(err, &b) || b.Stage != stage || !errors.As(err, &p) || !strings.Contains(err.Error(), goexit) {
			t.Errorf("%s: %v", function, err)
		}
	}
}

func TestInvalidConcurrency(t *testing.T) {
	red, _ := scene(t)
	kind := subprocess.New(nil)
	for _, c := range []struct {
		name string
		c    Concurrency
		// field is that of Concurrency which the error names, "" if it names none.
		field string
	}{
		{"single-block jobs with a number of workers",
			Concurrency{On: kind, OneBlockPerJob: true, Workers: 2, Reading: ReadByWorkers},
			"OneBlockPerJob"},
		{"single-block jobs with readers",
			Concurrency{On: kind, OneBlockPerJob: true, Readers: 2, Reading: ReadByWorkers}, "OneBlockPerJob"},
		{"single-block jobs in-process", Concurrency{OneBlockPerJob: true}, "On"},
		{"workers that read, in-process", Concurrency{Reading: ReadByWorkers}, "On"},
		{"a kind without workers", Concurrency{On: kind}, "Workers"},
		{"readers with workers that read", Concurrency{On: kind, Workers: 2, Readers: 1, Reading: ReadByWorkers},
			"Readers"},
		{"a shared directory for children", Concurrency{On: kind, Workers: 2, SharedTemp: t.TempDir()},
			"SharedTemp"},
		{"an address for children", Concurrency{On: kind, Workers: 2, Listen: "127.0.0.1"}, "Listen"},
		{"a barrier in-process", Concurrency{Barrier: time.Second}, "On"},
		{"no copies in-process", Concurrency{NoCopies: true}, "On"},
		{"fewer than no workers", Concurrency{Workers: -1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			job := Job{Inputs: map[string]Input{"red": File(red)}, Expressions: map[string]string{"out": "red"},
				Outputs: map[string]Output{"out": {Path: filepath.Join(dir, "out.tif")}}, Concurrency: c.c}
			err := failRun(t, job)
			if !errors.As(err, new(*outcome.JobError)) {
				t.Errorf("%T is not a JobError", err)
			}
			var field *outcome.FieldError
			if errors.As(err, &field) != (c.field != "") || field != nil && field.Field != "Concurrency."+c.field {
				t.Errorf("the field is %+v, expected %q: %v", field, c.field, err)
			}
			noFile(t, job.Outputs["out"].Path)
		})
	}
	t.Run("all at once", func(t *testing.T) {
		job := Job{Inputs: map[string]Input{"red": File(red)}, Func: failsAt,
			Outputs:     map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif")}},
			Concurrency: Concurrency{On: kind, SharedTemp: t.TempDir(), Barrier: -1}}
		failRun(t, job, "the number of workers", "no shared directory", "above 0", "stays in this process")
	})
	t.Run("parameters and values without a codec", func(t *testing.T) {
		job := Job{Inputs: map[string]Input{"red": File(red)}, Functions: Functions{"f": {Func: failsAt}},
			Function: "f", Params: 1,
			Merge:       func(int, any) error { return nil },
			Outputs:     map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif")}},
			Concurrency: Concurrency{On: kind, Workers: 1}}
		failRun(t, job, "Function.Emits", "Function.Params")
	})
	t.Run("a function that is not in the table", func(t *testing.T) {
		job := Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "gone",
			Outputs: map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif")}}}
		failRun(t, job, `no function "gone"`, "focal, records, slow")
	})
}

func noFile(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}
