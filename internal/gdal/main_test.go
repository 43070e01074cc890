package gdal

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"leat/internal/proctest"
	"leat/ndarray"
	"leat/raster"

	"go.uber.org/goleak"
)

// called holds the names of the C functions that were called, if watched.
var (
	called  sync.Map
	watched bool
)

// watch makes calls of a C function recorded in called.
func (f function) watch() {
	if f.value.IsNil() { // newer than the loaded GDAL
		return
	}
	call := reflect.ValueOf(f.value.Interface())
	f.value.Set(reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
		called.Store(f.name, true)
		return call.Call(args)
	}))
}

func TestMain(m *testing.M) {
	proctest.Main(children)
	flag.Parse()
	if watched = flag.Lookup("test.bench").Value.String() == "" && load() == nil; watched {
		for _, f := range functions() {
			f.watch()
		}
		for _, name := range []string{"CPLSetErrorHandler", "CPLSetConfigOption", "CPLGetConfigOption", "GDALAllRegister"} {
			called.Store(name, true) // by load
		}
	}
	code := m.Run()
	if code == 0 {
		code = uncalled()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// uncalled fails a run of all tests for each function of the table that no test called, since
// nothing else checks the types of its prototype.
func uncalled() int {
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == ""
	if !whole || !watched {
		return 0
	}
	if _, err := DriverByName("HFA"); err != nil {
		fmt.Fprintln(os.Stderr, "this GDAL lacks formats that the tests write: which functions they call is not looked at")
		return 0
	}
	code := 0
	for _, f := range functions() {
		if _, ok := called.Load(f.name); !ok && !(version < f.since) {
			fmt.Fprintf(os.Stderr, "FAIL: no test calls %s\n", f.name)
			code = 1
		}
	}
	return code
}

// need skips a test without GDAL, or without the format.
func need(t testing.TB, formats ...string) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	for _, f := range formats {
		if _, err := DriverByName(f); err != nil {
			t.Skipf("skipped: %v", err)
		}
	}
}

// sharedData returns the directory of real rasters, or skips the test.
func sharedData(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../../../shared/data")
	if err == nil {
		_, err = os.Stat(root)
	}
	if err != nil {
		t.Skipf("skipped: the real rasters are not at %s", root)
	}
	return root
}

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// readAll reads all bands, of the type of the first one.
func readAll(t testing.TB, s raster.Source) *ndarray.Array {
	t.Helper()
	i := s.Info()
	a := ndarray.New(i.Bands[0].Type, len(i.Bands), i.Grid.Height, i.Grid.Width)
	if err := s.Read(t.Context(), bandsOf(i), i.Grid.Window(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func bandsOf(i *raster.Info) []int {
	bands := make([]int, len(i.Bands))
	for k := range bands {
		bands[k] = k + 1
	}
	return bands
}

// noise returns pixels of any value; floats are finite.
func noise(typ ndarray.DType, bands, height, width int) *ndarray.Array {
	r := rand.New(rand.NewPCG(uint64(typ), uint64(width)))
	a := ndarray.New(typ, bands, height, width)
	switch typ {
	case ndarray.Float32, ndarray.Complex64:
		for i := range ndarray.Cast[float32](a.Data) {
			ndarray.Cast[float32](a.Data)[i] = float32(r.NormFloat64())
		}
	case ndarray.Float64, ndarray.Complex128:
		for i := range ndarray.Cast[float64](a.Data) {
			ndarray.Cast[float64](a.Data)[i] = r.NormFloat64()
		}
	default:
		for i := range a.Data {
			a.Data[i] = byte(r.Uint32())
		}
	}
	return a
}

// utm returns a grid of 10 m in UTM zone 31.
func utm(width, height int) raster.Grid {
	return raster.Grid{Width: width, Height: height, HasTransform: true,
		Transform: raster.Transform{500000, 10, 0, 5200000, 0, -10},
		CRS:       raster.CRS{Code: "EPSG:32631"}}
}

// holds checks that an error contains all of the words.
func holds(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; it would hold %q", words)
		return
	}
	if missing := slices.DeleteFunc(slices.Clone(words),
		func(w string) bool { return strings.Contains(err.Error(), w) }); len(missing) > 0 {
		t.Errorf("the error %q does not hold %q", err, missing)
	}
}
