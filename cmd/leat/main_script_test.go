package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"leat/apply"
	"leat/ndarray"
	"leat/raster"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"leat": heldMain, "maxrss": printMaxRSS, "mistakes": runLines})
}

// leakChecked fails the tests of a package that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// TestScripts runs testdata/script: leat as a process, as people call it. Besides testscript's
// commands there are
//
//	refused CODE ARG...           leat ARG... exits with CODE, writes messages, touches nothing
//	raster FILE WxH TYPE [KEY=V]  makes a raster on one common grid; KEYs: bands, nodata, at (the
//	                              COLUMN,ROW of its corner)
//	pixel FILE BAND COL ROW       prints a pixel
//	json FILE                     FILE (or stdout) is a JSON value, or one a line
//	png FILE                      prints the size of a picture
//	truncate FILE BYTES           cuts a file short
//	await FILE                    waits until a file has some bytes
//	nothing-hidden                no unfinished file of leat is left
//	tmpfs Directory SIZE, remount Directory OPTIONS  where [mounts]
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/script")
}

// TestGDALScripts runs testdata/gdal: formats, warped inputs, vectors and cutlines in detail.
func TestGDALScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: loads GDAL some hundred times")
	}
	t.Parallel()
	runScripts(t, "testdata/gdal")
}

func runScripts(t *testing.T, dir string) {
	shared := sharedDir()
	python, numpy := pythonRasterio(), pythonNumPy()
	caches, err := filepath.Abs("../../cache/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHARED", shared)
			e.Setenv("PYTHON", python)
			e.Setenv("NUMPY", numpy)
			e.Setenv("CACHES", caches)
			e.Setenv("BIN", filepath.SplitList(e.Getenv("PATH"))[0]) // where leat alone is
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "shared":
				return shared != "", nil
			case "rasterio":
				return python != "", nil
			case "numpy":
				return numpy != "", nil
			case "mounts":
				return canMount(), nil
			}
			return false, fmt.Errorf("there is no condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refused": refused, "raster": makeRaster, "pixel": printPixel, "json": checkJSON, "png": pictureSize,
			"await": await, "truncate": truncate, "nothing-hidden": nothingHidden, "tmpfs": mountTmpfs,
			"remount": remount, "same": sameRasters,
		},
	})
}

// sharedDir is where the real rasters are, "" where they are not.
func sharedDir() string {
	dir, err := filepath.Abs("../../../shared/data")
	if err != nil {
		return ""
	}
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// Importing rasterio takes half a second.
var (
	pythonRasterio = sync.OnceValue(func() string { return pythonWith("rasterio") })
	pythonNumPy    = sync.OnceValue(func() string { return pythonWith("numpy") })
)

func pythonWith(module string) string {
	for _, py := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(py, "-c", "import "+module).Run() == nil {
			return py
		}
	}
	return ""
}

// goisms must not be in what people read.
var goisms = regexp.MustCompile(`%!|strconv\.|goroutine |panic|0x[0-9a-f]{6}|\b(geotiff|expr|ndarray|raster|publish|apply|npy|overview|block|worker|subprocess|slurm|pbs|awsbatch|live|objstore): |failed.*failed|<nil>|\berror: `)

// checkSentences holds an error text against what all of them have in common.
func checkSentences(text string) error {
	if m := goisms.FindString(text); m != "" {
		return fmt.Errorf("people would read %q", m)
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "leat: ") && !strings.HasPrefix(line, "hint: ") && !strings.HasPrefix(line, "  ") {
			return fmt.Errorf("the line %q does not say whose it is", line)
		}
	}
	return nil
}

func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused CODE ARG...")
	}
	work := ts.Getenv("WORK")
	before := snapshot(ts, work)
	err := ts.Exec("leat", args[1:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, not %s", code, args[0])
	}
	ts.Check(checkSentences(ts.ReadFile("stderr")))
	if d := cmp.Diff(before, snapshot(ts, work)); d != "" {
		ts.Fatalf("something was touched:\n%s", d)
	}
}

// snapshot describes every file below dir with its size, time and content.
func snapshot(ts *testscript.TestScript, dir string) map[string]string {
	all := map[string]string{}
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			all[path] = "directory"
			return nil
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprint(i.Mode(), i.Size(), i.ModTime().UnixNano())
		if i.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[path] += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		return nil
	}))
	return all
}

func printPixel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: pixel FILE BAND COL ROW")
	}
	src, err := apply.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer src.Close()
	var n [3]int
	for i := range n {
		n[i], err = strconv.Atoi(args[i+1])
		ts.Check(err)
	}
	t := src.Info().Bands[n[0]-1].Type
	a := ndarray.New(t, 1, 1, 1)
	ts.Check(src.Read(context.Background(), []int{n[0]}, raster.Window{Col: n[1], Row: n[2], Width: 1, Height: 1}, a))
	var v any
	switch t {
	case ndarray.Uint8:
		v = ndarray.Slice[uint8](a)[0]
	case ndarray.Uint16:
		v = ndarray.Slice[uint16](a)[0]
	case ndarray.Int16:
		v = ndarray.Slice[int16](a)[0]
	case ndarray.Int32:
		v = ndarray.Slice[int32](a)[0]
	case ndarray.Float32:
		v = ndarray.Slice[float32](a)[0]
	case ndarray.Float64:
		v = ndarray.Slice[float64](a)[0]
	default:
		ts.Fatalf("pixel prints no %v", t)
	}
	fmt.Fprintln(ts.Stdout(), v)
}

func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: json FILE")
	}
	if json.Valid([]byte(ts.ReadFile(args[0]))) {
		return
	}
	n := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("line %d: %v: %s", n+1, err, line)
		}
		n++
	}
	if n == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
}

func pictureSize(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: png FILE")
	}
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	m, err := png.Decode(bytes.NewReader(b))
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%dx%d\n", m.Bounds().Dx(), m.Bounds().Dy())
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	for range 12_000 {
		if st, err := os.Stat(ts.MkAbs(args[0])); err == nil && st.Size() > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not come", args[0])
}

func nothingHidden(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") && strings.Contains(d.Name(), "leat") {
			err = fmt.Errorf("%s is left", path)
		}
		return err
	}))
}
