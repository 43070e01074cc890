package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leat/apply/outcome"
	"leat/internal/proctest"
	"leat/internal/pytest"
	"leat/worker/subprocess"
)

// pythonFunctions are the functions of these tests.
const pythonFunctions = `
import os, sys, threading, time
import numpy as np

def ndvi(b):
    red, nir = b.red.astype("f4"), b.nir.astype("f4")
    with np.errstate(divide="ignore", invalid="ignore"):
        out = (nir - red) / (nir + red)
    out[~(b.valid("red") & b.valid("nir"))] = np.nan
    b.out = out
    b.red[...] = 7  # a function may write to its inputs
    b.nir[...] = 9

def lists(b):
    w = b.overlap
    assert w == 2 and b.rows == b.window.height + 4 and b.columns == b.window.width + 4
    total = b.new("sum", "i4")
    total[...] = 0
    count = np.zeros((1, b.rows, b.columns), "u1")
    for pixels, valid in zip(b.s, b.valid("s")):
        total += np.where(valid, pixels, 0)
        count += valid
    near = np.ma.masked_all((1, b.window.height, b.window.width), "u2")
    near[:] = b.s[0][:, :-2 * w, w:-w]  # the row two above
    near[~b.valid("s")[0][:, :-2 * w, w:-w]] = np.ma.masked
    b.near = near
    b.count = count[0] > 1
    x, y = b.coordinates()
    assert b.transform[0] == x[0] - 5 and b.transform[3] == y[0] + 5, (b.transform, x[0], y[0])
    assert b.transform[0] == 500000 + 10 * (b.window.column - w)
    for a in b.s:
        a[...] = 1
    b.emit([b.number, b.params["factor"] * int(total[:, w:-w, w:-w].sum())])

def raises(b):
    if b.number == 1:
        raise ValueError("no luck")
    b.out = b.red

def exits(b):
    sys.exit(3)

def dies(b):
    print("the last line")
    sys.stdout.flush()
    os._exit(5)

def crashes(b):
    import ctypes
    ctypes.string_at(0)

def nothing(b):
    pass

def emits(b):
    b.emit(1)

def shape(b):
    b.out = b.red[:, 1:]

def place(b):
    import struct
    b._run.memory.place = lambda array: struct.pack("<q4I", 0, 99, 1, 64, 64)

def varies(b):
    b.out = b.red if b.number == 0 else b.red.astype("f4")

def two(b):
    w = b.overlap
    # The first block is smaller than the others: its outputs have no margin.
    pixels = b.red[:, w:-w, w:-w] if b.number == 0 else b.red
    b.first = pixels
    b.second = pixels + np.uint16(1)

def prints(b):
    print("block", b.number)
    b.out = b.red

def hangs(b):
    def sleep():
        time.sleep(1000)
    threading.Thread(target=sleep).start()
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    path = b.params["pids"]
    with open(path + ".new", "w") as f:
        f.write("%d %d" % (os.getpid(), child))
    os.rename(path + ".new", path)
    time.sleep(1000)

def forks(b):
    import ctypes
    libc = ctypes.CDLL(None)
    if hasattr(libc, "__register_atfork"):  # children take some milliseconds to begin
        handler = ctypes.cast(libc.sched_yield, ctypes.c_void_p)
        for i in range(20000):
            libc.__register_atfork(None, None, handler, None)
    open(b.params["pids"], "w").close()
    while True:
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        os.kill(child, 9)
        os.waitpid(child, 0)

def pool(b):
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda row: row * np.uint16(2), b.red[0]))
    b.out = np.array(rows)
    if b.number == 0:  # a child outlives the thread that forked it
        read, write = os.pipe()
        children = []
        def fork():
            children.append(os.fork())
            if children[0] == 0:
                os.read(read, 1)
                os._exit(0)
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        time.sleep(0.1)
        os.write(write, b"x")
        assert os.waitpid(children[0], 0)[1] == 0
    if os.fork() == 0:  # a child that goes on, which the run does not wait for
        time.sleep(1000)

def ends(b):
    import atexit
    if b.number == 0:
        atexit.register(lambda: time.sleep(2))
    b.out = b.red

def twice(b):
    for name in ["out"] + ["more"] * (1 if b.number == 0 else 3):
        b[name] = b.red

def ahead(b):
    import socket, stat
    fail, how, log = b.params["fail"], b.params["how"], b.params["log"]
    with open(log, "a") as f:
        print(b.number, file=f)
    waits = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as s:
                    waits += len(s.recv(8, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            pass
    b.emit(waits > 0)
    if b.number == fail:
        if how == "raise":
            raise ValueError("no luck")
        if how == "die":
            os._exit(5)
        if how == "hang":
            open(log + ".hangs", "w").close()
            time.sleep(1000)
    b.out = b.red

class Ahead:
    def __init__(self, params):
        self.params = params

    def __call__(self, b):
        ahead(b)

    def close(self):
        with open(self.params["log"], "a") as f:
            print("closed", file=f)

def sometimes(b):
    if b.number == 3 and os.path.exists(b.params["fail"]):
        raise RuntimeError("not yet")
    b.out = b.red
`

// pythonJob returns a job of one of these functions and input red, or skips the test.
func pythonJob(t testing.TB, name string) Job {
	t.Helper()
	python := pytest.Python(t, "numpy")
	dir := t.TempDir()
	file := filepath.Join(dir, "functions.py")
	if err := os.WriteFile(file, []byte(pythonFunctions), 0o600); err != nil {
		t.Fatal(err)
	}
	red := write(t, filepath.Join(dir, "red.tif"), mapGrid(256, 192, 0, 0), terrain[uint16](256, 192, 1), nil)
	return Job{Inputs: map[string]Input{"red": File(red)}, Python: &Python{File: file, Name: name, Executable: python,
		Output: t.Output()},
		Outputs:     map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), TileSize: 64}},
		Controls:    Controls{WindowWidth: 64, WindowHeight: 64},
		Concurrency: Concurrency{Workers: 1}}
}

// pythonWays returns ways to run a job with Python functions that must not change its outputs.
func pythonWays() map[string]Concurrency {
	ways := map[string]Concurrency{"one worker": {Workers: 1}, "subprocesses": {On: subprocess.New(nil), Workers: 2}}
	if !testing.Short() {
		ways["three workers"] = Concurrency{Workers: 3}
		ways["reading workers"] = Concurrency{On: subprocess.New(nil), Workers: 2, Reading: ReadByWorkers}
	}
	return ways
}

func TestPythonEqualsExpression(t *testing.T) {
	t.Parallel()
	red, nir := sceneOf(t, 700, 500)
	dir := t.TempDir()
	inputs := map[string]Input{"red": File(red), "nir": File(nir)}
	out := func(name string) map[string]Output {
		return map[string]Output{"out": {Path: filepath.Join(dir, name), Nodata: "nan", OverviewMethod: "average"}}
	}
	mustRun(t, Job{Inputs: inputs, Outputs: out("e.tif"),
		Expressions: map[string]string{"out": "(float32(nir) - red) / (float32(nir) + red)"}})
	want := fileBytes(t, filepath.Join(dir, "e.tif"))
	for name, c := range pythonWays() {
		job := pythonJob(t, "ndvi")
		job.Inputs, job.Outputs, job.Concurrency = inputs, out("p.tif"), c
		job.Controls = Controls{WindowWidth: 512, WindowHeight: 512}
		mustRun(t, job)
		samePixels(t, name, 700, pixels[float32](t, filepath.Join(dir, "p.tif")), pixels[float32](t, filepath.Join(dir, "e.tif")))
		sameFileBytes(t, name, filepath.Join(dir, "p.tif"), want)
	}
}

func TestPythonListsMarginsAndValues(t *testing.T) {
	t.Parallel()
	red, nir := sceneOf(t, 300, 200)
	a, b := pixels[uint16](t, red), pixels[uint16](t, nir)
	var sums [][2]int64
	var want map[string][]byte
	for name, c := range pythonWays() {
		job := pythonJob(t, "lists")
		dir := t.TempDir()
		job.Python.Params = json.RawMessage(`{"factor": 3}`)
		job.Inputs, job.Concurrency = map[string]Input{"s": Files(red, nir)}, c
		job.Controls = Controls{Overlap: 2, WindowWidth: 64, WindowHeight: 64}
		job.Outputs = map[string]Output{"sum": {Path: filepath.Join(dir, "sum.tif"), TileSize: 64},
			"near":  {Path: filepath.Join(dir, "near.tif"), TileSize: 64, Nodata: "0"},
			"count": {Path: filepath.Join(dir, "count.tif"), TileSize: 64}}
		var values [][2]int64
		job.Merge = func(block int, value any) error {
			var v [2]int64
			if err := json.Unmarshal(value.(json.RawMessage), &v); err != nil || v[0] != int64(block) {
				return fmt.Errorf("block %d emitted %s (%v)", block, value, err)
			}
			values = append(values, v)
			return nil
		}
		mustRun(t, job)
		now := map[string][]byte{}
		for n, o := range job.Outputs {
			now[n] = fileBytes(t, o.Path)
		}
		if want != nil {
			for n := range now {
				if !bytes.Equal(now[n], want[n]) {
					t.Errorf("%s: other bytes of %s", name, n)
				}
			}
			if !slices.Equal(values, sums) {
				t.Errorf("%s: %v was emitted, and before %v", name, values, sums)
			}
			continue
		}
		want, sums = now, values
		sum, near, count := pixels[int32](t, job.Outputs["sum"].Path), pixels[uint16](t, job.Outputs["near"].Path),
			pixels[uint8](t, job.Outputs["count"].Path)
		var total int64
		for i := range a {
			above := uint16(0)
			if i >= 2*300 {
				above = a[i-2*300]
			}
			both := uint8(0)
			if a[i] > 0 && b[i] > 0 {
				both = 1
			}
			if sum[i] != int32(a[i])+int32(b[i]) || near[i] != above || count[i] != both {
				t.Fatalf("%s: pixel %d of %d and %d: sum %d, near %d, count %d", name, i, a[i], b[i], sum[i], near[i], count[i])
			}
			total += 3 * int64(sum[i])
		}
		var emitted int64
		for _, v := range values {
			emitted += v[1]
		}
		if emitted != total || len(values) != 20 {
			t.Errorf("%s: %d in %d values, not %d in 20", name, emitted, len(values), total)
		}
	}
}

func TestPythonOutputMemoryGrows(t *testing.T) {
	job := pythonJob(t, "two")
	dir := t.TempDir()
	job.Controls.Overlap = 8
	job.Outputs = map[string]Output{"first": {Path: filepath.Join(dir, "first.tif"), TileSize: 64},
		"second": {Path: filepath.Join(dir, "second.tif"), TileSize: 64}}
	mustRun(t, job)
	want := pixels[uint16](t, job.Inputs["red"].Files[0])
	first, second := pixels[uint16](t, job.Outputs["first"].Path), pixels[uint16](t, job.Outputs["second"].Path)
	for i, v := range want {
		if first[i] != v || second[i] != v+1 {
			t.Fatalf("pixel %d of %d: outputs %d and %d", i, v, first[i], second[i])
		}
	}
}

func TestPythonFunctionFails(t *testing.T) {
	t.Parallel()
	cases := []struct {
		function string
		kind     string // of a PythonError
		block    int
		text     []string // in the error
		stack    []string
	}{
		{"raises", "ValueError", 1, []string{"block 1 (64,0 64x64)", "ValueError: no luck"},
			[]string{"Traceback (most recent call last)", "functions.py\", line ", "in raises", `raise ValueError("no luck")`}},
		{"crashes", "", 0, []string{"block 0", "killed by SIGSEGV"}, []string{"Fatal Python error", "in crashes"}},
		{"dies", "", 0, []string{"block 0", "exit status 5"}, []string{"the last line"}},
		{"exits", "SystemExit", 0, []string{"block 0", "the function called sys.exit(3)"}, []string{"in exits"}},
		{"nothing", "", 0, []string{"block 0", `the function set no output "out"`}, nil},
		{"emits", "RuntimeError", 0, []string{"block 0", "nothing receives the values"}, []string{"in emits"}},
		{"shape", "ValueError", 0, []string{"block 0", `output 'out' has the shape (1, 63, 64), expected (bands, 64, 64)`}, []string{"in shape"}},
		{"place", "", 0, []string{"block 0", `output "out": an array of a type with the code 99`}, nil},
		{"varies", "", 0, []string{"output out: block 1 gives 1 band of float32, but block 0 gave 1 band of uint16",
			"1 band of float32", "1 band of uint16"}, nil},
	}
	kinds := map[string]Concurrency{"here": {Workers: 1}}
	if !testing.Short() {
		kinds["subprocess"] = Concurrency{On: subprocess.New(nil), Workers: 1}
	}
	for kind, c := range kinds {
		for _, k := range cases {
			t.Run(kind+" "+k.function, func(t *testing.T) {
				job := pythonJob(t, k.function)
				job.Concurrency = c
				_, err := Run(t.Context(), job)
				if kind == "subprocess" { // its slots begin with several blocks
					k.text = k.text[1:]
				}
				wantError(t, err, k.text...)
				var e *outcome.BlockError
				if k.function != "varies" && k.function != "nothing" && (!errors.As(err, &e) ||
					kind == "here" && e.Block != k.block || e.Stage != "computing" || e.Worker == "" || e.Host == "") {
					t.Errorf("%#v", e)
				}
				for _, text := range k.stack {
					if e == nil || !strings.Contains(string(e.Stack), text) {
						t.Errorf("the stack has no %q:\n%s", text, e.Stack)
					}
				}
				if e != nil && (strings.Contains(string(e.Stack), "_function.py") || strings.Contains(string(e.Stack), "_block.py\", line")) &&
					k.function != "crashes" {
					t.Errorf("the stack has frames of leat:\n%s", e.Stack)
				}
				var p *outcome.PythonError
				if errors.As(err, &p) != (k.kind != "") || p != nil && p.Kind != k.kind {
					t.Errorf("%#v", p)
				}
				if _, err := os.Stat(job.Outputs["out"].Path); !os.IsNotExist(err) {
					t.Error(err)
				}
			})
		}
	}
}

// Python gets small blocks before it has answered the one before. An error is of the block that
// failed, and the function is not called with a later one.
func TestPythonBlocksSentAhead(t *testing.T) {
	for _, c := range []struct {
		name, how string
		fail      int
		text      []string
	}{
		{name: "succeeds", fail: -1},
		{"raises", "raise", 100, []string{"block 100 (", "ValueError: no luck"}},
		{"dies", "die", 101, []string{"block 101 (", "exit status 5"}},
		{"hangs", "hang", 102, []string{"enough of it"}},
		{"the last raises", "raise", 191, []string{"block 191 (", "ValueError: no luck"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := pythonJob(t, "Ahead")
			log := filepath.Join(t.TempDir(), "log")
			job.Python.Params = fmt.Appendf(nil, `{"fail": %d, "how": %q, "log": %q}`, c.fail, c.how, log)
			job.Outputs["out"] = Output{Path: job.Outputs["out"].Path, TileSize: 16}
			job.Controls = Controls{WindowWidth: 16, WindowHeight: 16}
			waited := 0
			job.Merge = func(_ int, value any) error {
				if string(value.(json.RawMessage)) == "true" {
					waited++
				}
				return nil
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.how == "hang" {
				go func() {
					for ctx.Err() == nil {
						if _, err := os.Stat(log + ".hangs"); err == nil {
							cancel(errors.New("enough of it"))
						}
						time.Sleep(time.Millisecond)
					}
				}()
			}
			_, err := Run(ctx, job)
			if c.text == nil {
				if err != nil {
					t.Fatal(err)
				}
				samePixels(t, c.name, 256, pixels[uint16](t, job.Outputs["out"].Path), pixels[uint16](t, job.Inputs["red"].Files[0]))
			} else {
				wantError(t, err, c.text...)
			}
			called := strings.Fields(string(fileBytes(t, log)))
			last := c.fail
			if c.fail < 0 {
				last = 191
			}
			if c.how == "" || c.how == "raise" {
				if called[len(called)-1] != "closed" {
					t.Error("the instance was not closed")
				}
				called = called[:len(called)-1]
			}
			if len(called) != last+1 || called[last] != strconv.Itoa(last) {
				t.Errorf("%d calls, the last with block %s, expected block %d", len(called), called[len(called)-1], last)
			}
			if waited == 0 {
				t.Error("no block was sent ahead")
			}
			t.Log(waited, "blocks were sent ahead")
		})
	}
}

func TestPythonFunctionNotLoaded(t *testing.T) {
	job := pythonJob(t, "raises")
	dir := filepath.Dir(job.Python.File)
	good := *job.Python
	broken := filepath.Join(dir, "broken.py")
	for path, text := range map[string]string{broken: "def f(b):\n    return (\n", filepath.Join(dir, "imports.py"): "import no_such\n",
		filepath.Join(dir, "numpy.py"): "raise ImportError('an old one')\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		change func(p *Python)
		want   []string
	}{
		"no function": {func(p *Python) { p.Name = "ndwi" }, []string{"functions.py has no function ndwi; it has", "ndvi", "field Python"}},
		"no file":     {func(p *Python) { p.File = filepath.Join(dir, "none.py") }, []string{"none.py", "no such file", "field Python"}},
		"syntax":      {func(p *Python) { p.File = broken }, []string{"SyntaxError", "broken.py\", line 2"}},
		"import":      {func(p *Python) { p.File = filepath.Join(dir, "imports.py") }, []string{"No module named 'no_such'", "line 1"}},
		"no module":   {func(p *Python) { p.File, p.Module = "", "no.such" }, []string{"no"}},
		"no Python":   {func(p *Python) { p.Executable = filepath.Join(dir, "python") }, []string{"field Python.Executable"}},
		"no program":  {func(p *Python) { p.Executable = "/bin/false" }, []string{"exit status 1"}},
		"no JSON":     {func(p *Python) { p.Params = json.RawMessage("{") }, []string{"field Python.Params"}},
		"both":        {func(p *Python) { p.Module = "m" }, []string{"and not both"}},
	}
	if testing.Short() {
		delete(cases, "import")
		delete(cases, "no program")
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job, p := job, good
			job.Python = &p
			c.change(&p)
			failRun(t, job, c.want...)
			if e := new(outcome.IncompleteError); errors.As(failRun(t, job), &e) {
				t.Error("the run has begun")
			}
		})
	}
	t.Run("no NumPy", func(t *testing.T) {
		t.Setenv("PYTHONPATH", dir)
		failRun(t, job, "has no NumPy, which functions need: an old one")
	})
}

// A function that can't be loaded leaves the blocks of an earlier run, whose first blocks are read
// meanwhile.
func TestPythonNotLoadedKeepsBlocks(t *testing.T) {
	job := pythonJob(t, "sometimes")
	fail := filepath.Join(t.TempDir(), "fail")
	if err := os.WriteFile(fail, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	params, err := json.Marshal(map[string]string{"fail": fail})
	if err != nil {
		t.Fatal(err)
	}
	job.Python.Params = params
	failRun(t, job, "not yet")
	broken := *job.Python
	broken.Name = "gone"
	again := job
	again.Python = &broken
	var e *outcome.JobError
	if err := failRun(t, again, "has no function gone"); !errors.As(err, &e) {
		t.Errorf("%T, expected a JobError", err)
	}
	if err := os.Remove(fail); err != nil {
		t.Fatal(err)
	}
	job.Resume = true
	if res := mustRun(t, job); res.Resumed != 3 {
		t.Errorf("%d blocks resumed, expected 3", res.Resumed)
	}
}

// Blocks are read ahead of a function that is being loaded, but a resumed run and workers in other
// processes wait for it: their plans have as many buffers as those of a function in Go.
func TestBuffersAheadOfPython(t *testing.T) {
	python := pythonJob(t, "nothing")
	inGo := python
	inGo.Python, inGo.Functions, inGo.Function = nil, testFunctions, "spoils"
	remote := func(r Reading) Concurrency { return Concurrency{On: subprocess.New(nil), Workers: 1, Reading: r} }
	for name, c := range map[string]struct {
		resume, ahead bool
		concurrency   Concurrency
	}{
		"here":            {ahead: true, concurrency: Concurrency{Workers: 1}},
		"resumed":         {resume: true, concurrency: Concurrency{Workers: 1}},
		"subprocess":      {concurrency: remote(ReadHere)},
		"reading workers": {concurrency: remote(ReadByWorkers)},
	} {
		var plans []*outcome.Plan
		for _, job := range []Job{python, inGo} {
			job.Resume, job.Concurrency = c.resume, c.concurrency
			p, err := MakePlan(t.Context(), job)
			if err != nil {
				t.Fatal(name, err)
			}
			plans = append(plans, p)
		}
		if more := plans[0].Buffers - plans[1].Buffers; (more > 0) != c.ahead || more < 0 {
			t.Errorf("%s: %d buffers more than for a function in Go", name, more)
		}
		if !c.ahead && plans[0].MemoryBytes != plans[1].MemoryBytes {
			t.Errorf("%s: %d bytes, expected %d", name, plans[0].MemoryBytes, plans[1].MemoryBytes)
		}
	}
}

// An error of an input ends a run whose function is still being loaded.
func TestPythonLoadingIsCanceled(t *testing.T) {
	job := pythonJob(t, "nothing")
	red := job.Inputs["red"].Files[0]
	whole := fileBytes(t, red)
	for i := range whole[2000:] { // tiles, after the header
		whole[2000+i] = 0xff
	}
	if err := os.WriteFile(red, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job.Python.File, []byte("import time\ntime.sleep(1000)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	failRun(t, job, "reading block ", "red.tif")
}

// gone waits until processes have ended.
func gone(t *testing.T, pids string) {
	t.Helper()
	for _, text := range strings.Fields(pids) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("process %d still runs", pid)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") Z ")
}

// awaitFile returns the contents of a file when it is there.
func awaitFile(t *testing.T, path string) string {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("there is no %s", path)
		}
	}
}

func TestPythonHangsAndIsCanceled(t *testing.T) {
	for name, c := range pythonWays() {
		t.Run(name, func(t *testing.T) {
			job := pythonJob(t, "hangs")
			job.Concurrency = c
			job.Concurrency.Workers = 1
			pids := filepath.Join(t.TempDir(), "pids")
			job.Python.Params = json.RawMessage(fmt.Sprintf(`{"pids": %q}`, pids))
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped by the test")
			r, err := Start(ctx, job)
			if err != nil {
				t.Fatal(err)
			}
			text := awaitFile(t, pids)
			cancel(stopped)
			if _, err := r.Wait(); !errors.Is(err, stopped) {
				t.Error(err)
			}
			gone(t, text)
		})
	}
}

// endlessFunction is a child that runs a function that does not return: its arguments are file,
// Python, the function and the file of pids.
func endlessFunction(args []string) error {
	grid := mapGrid(64, 64, 0, 0)
	job := Job{Outputs: map[string]Output{"out": {Path: args[3] + ".tif"}}, Controls: Controls{Grid: &grid},
		Python: &Python{File: args[0], Executable: args[1], Name: args[2],
			Params: json.RawMessage(fmt.Sprintf(`{"pids": %q}`, args[3]))},
		Concurrency: Concurrency{Workers: 1}}
	_, err := Run(context.Background(), job)
	return err
}

func TestPythonOfKilledRun(t *testing.T) {
	job := pythonJob(t, "hangs")
	pids := filepath.Join(t.TempDir(), "pids")
	c := proctest.New("endless function", job.Python.File, job.Python.Executable, "hangs", pids)
	c.Start(t)
	text := awaitFile(t, pids)
	c.Kill()
	c.Wait()
	gone(t, text)
}

func TestPythonOfRunKilledAtAnyTime(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: kills twenty runs")
	}
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip(err)
	}
	job := pythonJob(t, "forks")
	for i := range 20 {
		name := fmt.Sprintf("killed-run-%d-%d", os.Getpid(), i) // in the environment of its processes
		begun := filepath.Join(t.TempDir(), name)
		c := proctest.New("endless function", job.Python.File, job.Python.Executable, "forks", begun)
		c.Start(t)
		if i%2 == 0 {
			awaitFile(t, begun)
		}
		time.Sleep(rand.N(500 * time.Millisecond))
		c.Kill()
		c.Wait()
		for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			left := processesOf(t, name)
			if len(left) == 0 {
				break
			}
			if time.Since(begin) > time.Minute {
				for _, pid := range left {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				t.Fatalf("processes %v of run %d still run", left, i)
			}
		}
	}
}

// processesOf returns the processes that have a text in their environment.
func processesOf(t *testing.T, text string) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range paths {
		if environ, err := os.ReadFile(path); err == nil && bytes.Contains(environ, []byte(text)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestPythonFunctionThatPrintsForksAndUsesThreads(t *testing.T) {
	job := pythonJob(t, "prints")
	var out syncBuffer
	job.Python.Output = &out
	mustRun(t, job)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	if len(lines) != 12 || lines[0] != "block 0" || lines[11] != "block 9" {
		t.Errorf("it printed %q", lines)
	}
	job.Python.Name = "pool"
	mustRun(t, job)
	red, got := pixels[uint16](t, job.Inputs["red"].Files[0]), pixels[uint16](t, job.Outputs["out"].Path)
	for i := range red {
		if got[i] != 2*red[i] {
			t.Fatalf("pixel %d is %d, not twice %d", i, got[i], red[i])
		}
	}
}

// The time of a run is that until its processes have ended.
func TestPythonTimeIncludesEndOfProcesses(t *testing.T) {
	if res := mustRun(t, pythonJob(t, "ends")); res.Wall < 2*time.Second {
		t.Errorf("the run took %v, but its process took 2 s to end", res.Wall)
	}
}

func TestPythonRunResumed(t *testing.T) {
	job := pythonJob(t, "sometimes")
	fail := filepath.Join(t.TempDir(), "fail")
	if err := os.WriteFile(fail, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	job.Python.Params = json.RawMessage(fmt.Sprintf(`{"fail": %q}`, fail))
	if e := new(outcome.IncompleteError); !errors.As(failRun(t, job, "RuntimeError: not yet"), &e) || e.Done != 3 {
		t.Fatalf("%+v", e)
	}
	job.Resume = true
	text := fileBytes(t, job.Python.File)
	if err := os.WriteFile(job.Python.File, append(slices.Clone(text), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	failRun(t, job, "the source of the function was", "functions.py:sometimes sha256:")
	if err := os.WriteFile(job.Python.File, text, 0o600); err != nil {
		t.Fatal(err)
	}
	changed := *job.Python
	changed.Params = json.RawMessage(fmt.Sprintf(`{"fail": %q, "more": 1}`, fail))
	other := job
	other.Python = &changed
	failRun(t, other, "the parameters of the function differ")
	if err := os.Remove(fail); err != nil {
		t.Fatal(err)
	}
	moved := *job.Python // the same file in another directory
	moved.File = filepath.Join(t.TempDir(), filepath.Base(job.Python.File))
	if err := os.WriteFile(moved.File, text, 0o600); err != nil {
		t.Fatal(err)
	}
	job.Python = &moved
	if res := mustRun(t, job); res.Resumed != 3 {
		t.Errorf("%d blocks were resumed", res.Resumed)
	}
	samePixels(t, "resumed", 256, pixels[uint16](t, job.Outputs["out"].Path), pixels[uint16](t, job.Inputs["red"].Files[0]))
}

func TestPythonOutputsInGrownMemory(t *testing.T) {
	job := pythonJob(t, "twice")
	job.Outputs["more"] = Output{Path: filepath.Join(t.TempDir(), "more.tif"), TileSize: 64}
	mustRun(t, job)
	red := pixels[uint16](t, job.Inputs["red"].Files[0])
	for _, o := range job.Outputs {
		samePixels(t, o.Path, 256, pixels[uint16](t, o.Path), red)
	}
}

func TestPythonModulesOfWorkingDirectory(t *testing.T) {
	job := pythonJob(t, "prints")
	dir := t.TempDir()
	for _, name := range []string{"json.py", "struct.py", "socket.py"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("raise RuntimeError\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	mustRun(t, job)
}

func TestPythonModule(t *testing.T) {
	job := pythonJob(t, "raises")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pkg"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"pkg/__init__.py": "", "pkg/other.py": "factor = 2\n",
		"pkg/model.py": "from .other import factor\nclass Model:\n    @staticmethod\n    def double(b):\n        b.out = b.red * factor\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	job.Python.File, job.Python.Module, job.Python.Name = "", "pkg.model", "Model.double"
	mustRun(t, job)
	if red, got := pixels[uint16](t, job.Inputs["red"].Files[0]), pixels[uint16](t, job.Outputs["out"].Path); got[5] != 2*red[5] {
		t.Errorf("%d, not twice %d", got[5], red[5])
	}
	left, err := filepath.Glob(filepath.Join(dir, "pkg", "__pycache__", "model*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q is left (%v)", left, err)
	}
}

// syncBuffer is a buffer that several goroutines write to.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}
