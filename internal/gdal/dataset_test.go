package gdal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// write writes a raster into t's directory, in blocks of odd sizes and in descending order.
func write(t testing.TB, name string, spec *Spec, pixels *ndarray.Array) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	w, err := Create(path, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if err := writeAll(t, w, pixels); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeAll(t testing.TB, w *Writer, pixels *ndarray.Array) error {
	g := w.spec.Grid
	for row := (g.Height - 1) / 50 * 50; row >= 0; row -= 50 {
		for col := 0; col < g.Width; col += 70 {
			win := raster.Window{Col: col, Row: row, Width: min(70, g.Width-col), Height: min(50, g.Height-row)}
			part := *pixels
			part.Shape = []int{w.spec.Bands, win.Height, win.Width}
			part.Offset += row*pixels.Strides[1] + col*pixels.Strides[2]
			if err := w.WriteBlock(t.Context(), win, &part); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestConcurrentReads(t *testing.T) {
	need(t, "GTiff")
	pixels := noise(ndarray.Uint16, 2, 400, 300)
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(300, 400), Bands: 2, Type: ndarray.Uint16,
		Options: []string{"TILED=YES", "BLOCKXSIZE=64", "BLOCKYSIZE=64", "COMPRESS=DEFLATE"}}, pixels)
	for _, handles := range []int{1, 3, 0} {
		f, err := Open(path, &Options{Handles: handles})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for seed := range uint64(8) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 0))
				for range 30 {
					w := raster.Window{Width: 1 + r.IntN(300), Height: 1 + r.IntN(400)}
					w.Col, w.Row = r.IntN(301-w.Width), r.IntN(401-w.Height)
					a := ndarray.New(ndarray.Uint16, 2, w.Height, w.Width)
					if err := f.Read(context.Background(), []int{2, 1}, w, a); err != nil {
						t.Error(err)
						return
					}
					for b := range 2 {
						for y := range w.Height {
							from := (1-b)*pixels.Strides[0] + (w.Row+y)*pixels.Strides[1] + w.Col*2
							if !bytes.Equal(a.Data[b*a.Strides[0]+y*a.Strides[1]:][:w.Width*2],
								pixels.Data[from:from+w.Width*2]) {
								t.Errorf("window %v: other pixels", w)
								return
							}
						}
					}
				}
			})
		}
		wg.Wait()
		if handles > 0 && f.opened > handles {
			t.Errorf("%d handles are open, of %d", f.opened, handles)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// resident returns the process's resident memory and its number of descriptors.
func resident(t *testing.T) (bytes, files int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("skipped: memory can't be looked at here: %v", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize(), len(list)
}

func TestOpenLeaks(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): takes half a minute")
	}
	need(t, "GTiff")
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(20, 20), Bands: 3, Type: ndarray.Uint8},
		noise(ndarray.Uint8, 3, 20, 20))
	dst := ndarray.New(ndarray.Uint8, 3, 20, 20)
	round := func(n int) {
		for range n {
			f, err := Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Read(t.Context(), []int{1, 2, 3}, raster.Window{Width: 20, Height: 20}, dst); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The heap, GDAL and the memory of threads grow in some rounds, a leak in all.
	var grown, left int
	for range 6 {
		before, files := resident(t)
		round(2500)
		runtime.GC()
		after, filesAfter := resident(t)
		// A leak of 2 KiB for each would be 5 MiB. PROJ's database is opened once per thread.
		if grown, left = after-before, filesAfter-files; grown <= 4<<20 && left <= 8 {
			return
		}
	}
	t.Errorf("2,500 openings leave %d KiB and %d descriptors each time", grown>>10, left)
}

func TestFileReplacedWhileOpen(t *testing.T) {
	need(t, "GTiff")
	spec := &Spec{Driver: "GTiff", Grid: utm(20, 20), Bands: 1, Type: ndarray.Uint8}
	path := write(t, "a.tif", spec, noise(ndarray.Uint8, 1, 20, 20))
	f := open(t, path)
	other := write(t, "b.tif", spec, ndarray.New(ndarray.Uint8, 1, 20, 20))
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	h, err := f.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = f.Read(t.Context(), []int{1}, raster.Window{Width: 1, Height: 1}, ndarray.New(ndarray.Uint8, 1, 1, 1))
	holds(t, err, path, "replaced or changed while open")
	f.release(h)
	if err := f.Read(t.Context(), []int{1}, raster.Window{Width: 1, Height: 1},
		ndarray.New(ndarray.Uint8, 1, 1, 1)); err != nil {
		t.Errorf("the handle that there is: %v", err)
	}
}

func TestContextEndsWaitForHandle(t *testing.T) {
	need(t, "GTiff")
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(20, 20), Bands: 1, Type: ndarray.Uint8},
		noise(ndarray.Uint8, 1, 20, 20))
	f, err := Open(path, &Options{Handles: 1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := f.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		failed <- f.Read(ctx, []int{1}, raster.Window{Width: 1, Height: 1}, ndarray.New(ndarray.Uint8, 1, 1, 1))
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	f.release(h)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	err = f.Read(t.Context(), []int{1}, raster.Window{Width: 1, Height: 1}, ndarray.New(ndarray.Uint8, 1, 1, 1))
	if !errors.Is(err, fs.ErrClosed) {
		t.Errorf("reading a closed file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestShortArraysAreRefused(t *testing.T) {
	need(t, "GTiff")
	pixels := noise(ndarray.Uint16, 2, 20, 20)
	f := open(t, write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(20, 20), Bands: 2, Type: ndarray.Uint16}, pixels))
	for name, change := range map[string]func(a *ndarray.Array){
		"offset":        func(a *ndarray.Array) { a.Offset = 2 },
		"before":        func(a *ndarray.Array) { a.Offset = -2 },
		"row stride":    func(a *ndarray.Array) { a.Strides[1]++ },
		"band stride":   func(a *ndarray.Array) { a.Strides[0] += 2 },
		"falling rows":  func(a *ndarray.Array) { a.Strides[1] = -a.Strides[1] },
		"short memory":  func(a *ndarray.Array) { a.Data = a.Data[:len(a.Data)-1] },
		"no memory":     func(a *ndarray.Array) { a.Data = nil },
		"falling bands": func(a *ndarray.Array) { a.Strides[0] = -a.Strides[0]; a.Offset = 2 },
	} {
		a := ndarray.New(ndarray.Uint16, 2, 20, 20)
		change(a)
		if err := f.Read(t.Context(), []int{1, 2}, raster.Window{Width: 20, Height: 20}, a); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	a := ndarray.New(ndarray.Uint16, 2, 20, 20)
	a.Strides[1], a.Offset = -40, 19*40
	if err := f.Read(t.Context(), []int{1, 2}, raster.Window{Width: 20, Height: 20}, a); err != nil {
		t.Fatal(err)
	}
	for b := range 2 {
		for y := range 20 {
			if !bytes.Equal(a.Data[a.Offset+b*a.Strides[0]+y*a.Strides[1]:][:40], pixels.Data[b*800+y*40:][:40]) {
				t.Fatalf("row %d of band %d, read from below: other pixels", y, b+1)
			}
		}
	}
}

func TestOpenErrors(t *testing.T) {
	need(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "text.tif")
	if err := os.WriteFile(text, []byte("no raster at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		opt   *Options
		is    error
		words []string
	}{
		{filepath.Join(dir, "none.tif"), nil, fs.ErrNotExist, []string{"none.tif"}},
		{text, nil, raster.ErrFormat, []string{"text.tif", "GDAL can't open"}},
		{dir, nil, raster.ErrFormat, []string{dir}},
		{pipe, nil, raster.ErrFormat, []string{pipe, "is a pipe"}},
		{"", nil, nil, []string{"no name"}},
		{"a\x00b.tif", nil, nil, []string{`a\x00b.tif`, "NUL"}},
		{text, &Options{OpenOptions: []string{"novalue"}}, nil, []string{"novalue", "KEY=VALUE"}},
		{text, &Options{OpenOptions: []string{"A=b\x00c"}}, nil, []string{"NUL"}},
		{text, &Options{Handles: -1}, nil, []string{"-1"}},
		{"/vsizip/" + filepath.Join(dir, "none.zip") + "/a.tif", nil, nil, []string{"none.zip"}},
	} {
		f, err := Open(c.path, c.opt)
		if err == nil {
			f.Close()
		}
		holds(t, err, c.words...)
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%q: %v is not %v", c.path, err, c.is)
		}
	}
}

func TestSubdatasets(t *testing.T) {
	need(t, "GPKG", "netCDF")
	// Only one of the available formats writes several rasters to a file.
	path := filepath.Join(t.TempDir(), "two.gpkg")
	for _, table := range []string{"one", "two"} {
		var h hDataset
		err := try(path, "create", func() bool {
			options := []string{"RASTER_TABLE=" + table}
			if table == "two" {
				options = append(options, "APPEND_SUBDATASET=YES")
			}
			h = c.GDALCreate(c.GDALGetDriverByName("GPKG"), path, 300, 300, 4, gdtByte, cStrings(options))
			return h != 0
		})
		if err != nil {
			t.Fatal(err)
		}
		var six = [6]float64{500000, 10, 0, 5200000, 0, -10}
		if c.GDALSetGeoTransform(h, &six[0]) != 0 {
			t.Fatal("no transform")
		}
		a := noise(ndarray.Uint8, 4, 300, 300)
		if c.GDALDatasetRasterIOEx(h, 1, 0, 0, 300, 300, ptr(a), 300, 300, gdtByte, 4, nil, 1, 300, 90000, nil) != 0 {
			t.Fatal("no pixels")
		}
		closeDataset(h)
	}
	_, err := Open(path, nil)
	holds(t, err, "several rasters", "GPKG:"+path+":one", "GPKG:"+path+":two")
	if !errors.Is(err, raster.ErrUnsupported) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
	f := open(t, "GPKG:"+path+":two")
	if f.Info().Grid.Width != 300 || f.Info().FileBytes == 0 {
		t.Errorf("opened by name: %+v", f.Info())
	}
}

func TestOpenDirectoriesAndArchives(t *testing.T) {
	need(t, "GTiff")
	pixels := noise(ndarray.Uint8, 1, 600, 600)
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(600, 600), Bands: 1, Type: ndarray.Uint8}, pixels)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zip := filepath.Join(t.TempDir(), "a.zip")
	if err := os.WriteFile(zip, stored("inner.tif", b), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, "/vsizip/"+zip+"/inner.tif")
	if got := readAll(t, f); !bytes.Equal(got.Data, pixels.Data) {
		t.Error("other pixels from an archive")
	}
	names, err := f.FileNames()
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], "inner.tif") {
		t.Errorf("its files are %q (%v)", names, err)
	}
	o, err := Open(path, &Options{OpenOptions: []string{"OVERVIEW_LEVEL=NONE"}, Drivers: []string{"GTiff"}})
	if err != nil {
		t.Fatal(err)
	}
	o.Close()
	if _, err := Open(path, &Options{Drivers: []string{"PNG"}}); !errors.Is(err, raster.ErrFormat) {
		t.Errorf("a TIFF as PNG: %v", err)
	}
}

// damage returns the bytes of a file, damaged in one of several ways.
func damage(b []byte, r *rand.Rand) []byte {
	out := bytes.Clone(b)
	switch r.IntN(3) {
	case 0:
		return out[:r.IntN(len(out))]
	case 1:
		for range 1 + r.IntN(20) {
			out[r.IntN(len(out))] = byte(r.Uint32())
		}
	default:
		from := r.IntN(len(out))
		clear(out[from:min(len(out), from+1+r.IntN(200))])
	}
	return out
}

func TestDamagedFiles(t *testing.T) {
	need(t, "GTiff", "PNG", "HFA", "JPEG")
	for _, c := range []struct {
		name, driver string
		options      []string
		typ          ndarray.DType
		bands        int
	}{
		{"a.tif", "GTiff", []string{"COMPRESS=DEFLATE", "TILED=YES", "BLOCKXSIZE=64", "BLOCKYSIZE=64"}, ndarray.Uint16,
			2},
		{"b.tif", "GTiff", []string{"COMPRESS=JPEG"}, ndarray.Uint8, 3},
		{"a.img", "HFA", []string{"COMPRESSED=YES"}, ndarray.Uint16, 1},
		{"a.png", "PNG", nil, ndarray.Uint8, 3},
		{"a.jpg", "JPEG", nil, ndarray.Uint8, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			pixels := noise(c.typ, c.bands, 150, 130)
			path := write(t, c.name, &Spec{Driver: c.driver, Options: c.options, Grid: utm(130, 150), Bands: c.bands,
				Type: c.typ}, pixels)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			os.Remove(path + ".aux.xml")
			want := readAll(t, open(t, path))
			r := rand.New(rand.NewPCG(7, 7))
			failed := 0
			for n := range 60 {
				name := filepath.Join(filepath.Dir(path), fmt.Sprintf("%d-%s", n, c.name))
				b := damage(whole, r)
				if n == 0 { // half of the file lacks half of the pixels
					b = whole[:len(whole)/2]
				}
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
				err := readDamaged(t, name, want)
				if err != nil {
					failed++
					if !strings.Contains(err.Error(), name) {
						t.Errorf("the error %q does not name the file", err)
					}
				} else if n == 0 {
					t.Error("half a file: no error")
				}
				os.Remove(name)
			}
			if failed < 10 {
				t.Errorf("%d of 60 damaged files gave an error", failed)
			}
		})
	}
}

func readDamaged(t *testing.T, name string, like *ndarray.Array) error {
	f, err := Open(name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	i := f.Info()
	if int64(i.Grid.Width)*int64(i.Grid.Height)*int64(len(i.Bands)) > 1<<22 {
		return fmt.Errorf("%s: too large to be looked at", name)
	}
	for n, b := range i.Bands {
		if err := f.Read(t.Context(), []int{n + 1}, i.Grid.Window(),
			ndarray.New(b.Type, 1, i.Grid.Height, i.Grid.Width)); err != nil {
			return err
		}
	}
	return nil
}
