package gdal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"leat/internal/proctest"
	"leat/ndarray"
	"leat/raster"
)

// children lists what the tests run in processes of their own.
var children = map[string]proctest.Func{
	"available": func([]string) error { return Available() },
	"leave":     leave,
	"silent":    silent,
	"settings":  showSettings,
}

// child runs one of the children with changes to the environment.
func child(t *testing.T, name string, env []string, args ...string) (output string, err error) {
	t.Helper()
	for _, e := range env {
		key, value, _ := strings.Cut(e, "=")
		t.Setenv(key, value)
	}
	_, output, err = proctest.New(name, args...).Start(t).Wait()
	return output, err
}

func TestMissingLibraryError(t *testing.T) {
	if leftOut != "" {
		t.Skip("skipped: built without GDAL")
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped: names of libraries are Linux's here")
	}
	text := filepath.Join(t.TempDir(), "libgdal.so")
	writeFile(t, text, strings.Repeat("no library ", 100))
	for name, c := range map[string]struct {
		library string
		words   []string
	}{
		"nowhere": {"/nonexistent/libgdal.so",
			[]string{"LEAT_GDAL_LIBRARY=/nonexistent/libgdal.so", "no such library"}},
		"no GDAL": {"libm.so.6", []string{"libm.so.6 is not a libgdal", "GDALVersionInfo", "apt-get install gdal-bin",
			"libgdal32", "conda install", "brew install gdal"}},
		"no object":   {text, []string{text, "can't be loaded", "ELF"}},
		"a directory": {filepath.Dir(text), []string{filepath.Dir(text), "can't be loaded"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := child(t, "available", []string{libraryInEnv + "=" + c.library})
			if err == nil {
				t.Fatal("no error")
			}
			holds(t, errors.New(out), append(c.words, "gdal: not available")...)
		})
	}
	t.Run("by its name", func(t *testing.T) {
		need(t)
		for _, n := range candidates() {
			if h, err := dlopen(n); err == nil {
				dlclose(h)
				if out, err := child(t, "available", []string{libraryInEnv + "=" + n}); err != nil {
					t.Errorf("%s: %v\n%s", n, err, out)
				}
				return
			}
		}
	})
}

func TestOtherLibrariesAreIgnored(t *testing.T) {
	if leftOut != "" || runtime.GOOS != "linux" {
		t.Skip("skipped: no names of libraries on Linux here")
	}
	t.Setenv(libraryInEnv, "")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONDA_PREFIX", dir)
	names := candidates()
	if names[0] == filepath.Join(dir, "lib", "libgdal.so") || names[len(names)-1] != "libgdal.so" {
		t.Errorf("the names are %q", names)
	}
	writeFile(t, filepath.Join(dir, "lib", "libgdal.so"), "")
	if names := candidates(); names[0] != filepath.Join(dir, "lib", "libgdal.so") {
		t.Errorf("with conda the names are %q", names)
	}
}

// leave ends the process with rasters open, one of them partly written, and with running readers.
func leave(args []string) error {
	var files []*File
	for range 20 {
		f, err := Open(args[0], nil)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	w, err := Create(args[1], &Spec{Driver: "HFA", Options: []string{"COMPRESSED=YES"},
		Grid: raster.Grid{Width: 300, Height: 300}, Bands: 1, Type: ndarray.Uint8})
	if err != nil {
		return err
	}
	if err := w.WriteBlock(ctxOf(), raster.Window{Width: 300, Height: 100},
		ndarray.New(ndarray.Uint8, 1, 100, 300)); err != nil {
		return err
	}
	started := make(chan bool)
	for _, f := range files {
		go func() {
			for n := 0; ; n++ {
				f.Read(ctxOf(), []int{1}, f.Info().Grid.Window(),
					ndarray.New(f.Info().Bands[0].Type, 1, f.Info().Grid.Height, f.Info().Grid.Width))
				if n == 0 {
					started <- true
				}
			}
		}()
	}
	for range files {
		<-started
	}
	return nil
}

func TestExitWithOpenRasters(t *testing.T) {
	need(t, "HFA", "GTiff")
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(200, 200), Bands: 1, Type: ndarray.Uint8,
		Options: []string{"COMPRESS=DEFLATE"}}, noise(ndarray.Uint8, 1, 200, 200))
	out := filepath.Join(t.TempDir(), "a.img")
	for range 5 {
		if text, err := child(t, "leave", nil, path, out); err != nil || text != "" {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an unfinished output has its name")
	}
	// The next writer removes what it left.
	w, err := Create(out, &Spec{Driver: "HFA", Grid: utm(10, 10), Bands: 1, Type: ndarray.Uint8})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Discard(); err != nil {
		t.Fatal(err)
	}
	checkClean(t, out)
}

// silent causes errors of all kinds.
func silent(args []string) error {
	Open(args[0], nil)
	Open("/vsimem/none", nil)
	Create(args[0]+"/none/a.img", &Spec{Driver: "HFA", Grid: raster.Grid{Width: 1, Height: 1}, Bands: 1,
		Type: ndarray.Uint8})
	f, err := Open(args[1], nil)
	if err == nil {
		err = f.Read(ctxOf(), []int{1}, f.Info().Grid.Window(),
			ndarray.New(f.Info().Bands[0].Type, 1, f.Info().Grid.Height, f.Info().Grid.Width))
	}
	if err == nil {
		return errors.New("half a file is whole")
	}
	return nil
}

func TestGDALPrintsNothing(t *testing.T) {
	need(t, "GTiff", "HFA")
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(200, 200), Bands: 1, Type: ndarray.Uint8},
		noise(ndarray.Uint8, 1, 200, 200))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(b[:len(b)/2]))
	out, err := child(t, "silent", nil, t.TempDir(), path)
	if err != nil || out != "" {
		t.Errorf("%v, printed: %s", err, out)
	}
}

// showSettings prints GDAL's settings.
func showSettings([]string) error {
	if err := load(); err != nil {
		return err
	}
	fmt.Print(c.CPLGetConfigOption("GDAL_HTTP_CONNECTTIMEOUT", ""), " ",
		c.CPLGetConfigOption("GDAL_HTTP_MAX_RETRY", ""), " ", c.GDALGetCacheMax64())
	return nil
}

func TestEnvironmentSettings(t *testing.T) {
	need(t)
	out, err := child(t, "settings", nil)
	if err != nil || !strings.HasPrefix(out, "30 3 ") {
		t.Errorf("%q %v", out, err)
	}
	out, err = child(t, "settings", []string{"GDAL_HTTP_CONNECTTIMEOUT=7", "GDAL_CACHEMAX=11MB"})
	if err != nil || out != "7 3 11534336" && out != "7 3 11000000" {
		t.Errorf("%q %v", out, err)
	}
	before := c.GDALGetCacheMax64()
	if before > maxCache {
		t.Errorf("the cache holds %d bytes", before)
	}
	if err := SetCacheBytes(77 << 20); err != nil || c.GDALGetCacheMax64() != 77<<20 {
		t.Errorf("the cache holds %d bytes (%v)", c.GDALGetCacheMax64(), err)
	}
	if err := SetCacheBytes(before); err != nil {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	need(t)
	v, err := Version()
	if err != nil || !strings.HasPrefix(v, fmt.Sprintf("%d.%d.", version/1_000_000, version/10_000%100)) {
		t.Errorf("%q for %d (%v)", v, version, err)
	}
	if v, err := PROJVersion(); err != nil || !regexp.MustCompile(`^([6-9]|1\d)\.\d+\.\d+$`).MatchString(v) {
		t.Errorf("PROJ %q (%v)", v, err)
	}
}
