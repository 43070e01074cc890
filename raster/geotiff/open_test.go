package geotiff

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/ndarray"
	"leat/raster"
	"leat/raster/rastertest"
)

// openFar opens the file at path, and those beside it, by way of Fars.
func openFar(t *testing.T, path string) (*File, []*rastertest.Far) {
	t.Helper()
	var all []*rastertest.Far
	open := func(name string) (io.ReaderAt, int64, error) {
		b, err := os.ReadFile(name)
		far := rastertest.NewFar(bytes.NewReader(b))
		if err == nil {
			all = append(all, far)
		}
		return far, int64(len(b)), err
	}
	r, size, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenAt(r, size, path, func(suffix string, _ bool) (io.ReaderAt, int64, string, error) {
		r, size, err := open(path + suffix)
		return r, size, path + suffix, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, all
}

func TestFilesOfGDALTellWhichBytesAReadTakes(t *testing.T) {
	dir, files := gdalMatrix(t, "3")
	r := rand.New(rand.NewPCG(3, 4))
	for _, m := range files {
		path := filepath.Join(dir, m.Name)
		near, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if near.Readable() != nil {
			near.Close()
			continue
		}
		s, fars := openFar(t, path)
		if d := cmp.Diff(near.Info(), s.Info(), cmp.AllowUnexported(raster.CRS{})); d != "" {
			t.Errorf("%s: %s", m.Name, d)
		}
		for _, far := range fars[1:] {
			far.Strict()
		}
		t.Run(m.Name, func(t *testing.T) { rastertest.Ranges(t, r, fars[0], s, near) })
		s.Close()
		near.Close()
	}
}

func TestTilesThatAreKeptAreNotFetchedAgain(t *testing.T) {
	b := tiffInMemory(t, 256, 256, 64, 2, 1)
	far := rastertest.NewFar(bytes.NewReader(b))
	f, err := OpenAt(far, int64(len(b)), "memory.tif", nil)
	if err != nil {
		t.Fatal(err)
	}
	far.Strict()
	all, err := f.Ranges(t.Context(), []int{1}, f.Info().Grid.Window(), true)
	if err != nil {
		t.Fatal(err)
	}
	f.SetCache(raster.NewTileCache(1<<20), func(raster.Window) int { return 8 })
	fetched := far.Fetched()
	for row := 0; row < 256; row += 8 {
		if err := f.Read(t.Context(), []int{1}, raster.Window{Row: row, Width: 256, Height: 8}, ndarray.New(ndarray.Uint16, 1, 8, 256)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := far.Fetched()-fetched, raster.RangeBytes(all); got != want {
		t.Errorf("%d bytes were fetched, the tiles have %d", got, want)
	}
}

// closing notes that it was closed.
type closing struct {
	io.ReaderAt
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestWhatIsOpenedThroughAReaderIsClosedWithIt(t *testing.T) {
	b := tiffInMemory(t, 64, 64, 64, 2, 1)
	mask := &closing{ReaderAt: bytes.NewReader(tiffInMemory(t, 64, 64, 64, 2, 1))}
	none := func(string, bool) (io.ReaderAt, int64, string, error) { return nil, 0, "", fs.ErrNotExist }
	beside := func(suffix string, instead bool) (io.ReaderAt, int64, string, error) {
		if suffix == ".msk" {
			return mask, int64(len(b)), "beside", nil
		}
		return none(suffix, instead)
	}
	main := &closing{ReaderAt: bytes.NewReader(b)}
	f, err := OpenAt(main, int64(len(b)), "memory.tif", beside)
	if err != nil {
		t.Fatal(err)
	}
	if main.closed+mask.closed != 0 {
		t.Error("closed too early")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if main.closed != 1 || mask.closed != 1 {
		t.Errorf("closed %d and %d times", main.closed, mask.closed)
	}
	bad := &closing{ReaderAt: bytes.NewReader([]byte("no TIFF at all"))}
	if _, err := OpenAt(bad, 14, "bad.tif", nil); err == nil || bad.closed != 1 {
		t.Errorf("the error is %v, closed %d times", err, bad.closed)
	}
}

func TestRangesOfWhatIsNotThereAreRefused(t *testing.T) {
	f := openBytes(t, tiffInMemory(t, 64, 64, 64, 2, 1))
	for _, c := range []struct {
		bands []int
		w     raster.Window
	}{{[]int{2}, raster.Window{Width: 1, Height: 1}}, {[]int{0}, raster.Window{Width: 1, Height: 1}}, {[]int{1}, raster.Window{Width: 65, Height: 1}}, {[]int{1}, raster.Window{Col: -1, Width: 1, Height: 1}}} {
		if _, err := f.Ranges(t.Context(), c.bands, c.w, true); err == nil {
			t.Errorf("bands %v of %v: no error", c.bands, c.w)
		}
	}
	if list, err := f.Ranges(t.Context(), nil, raster.Window{Width: 9, Height: 9}, false); err != nil || len(list) > 0 {
		t.Errorf("no band: %v, %v", list, err)
	}
}
