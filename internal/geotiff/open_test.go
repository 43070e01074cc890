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

	"leat/internal/driver"
	"leat/internal/rastertest"
	"leat/internal/tilecache"
	"leat/ndarray"
	"leat/raster"
)

// openRemote opens the file at path and its sidecars through Remotes.
func openRemote(t *testing.T, path string) (*File, []*rastertest.Remote) {
	t.Helper()
	var all []*rastertest.Remote
	open := func(name string) (io.ReaderAt, int64, error) {
		b, err := os.ReadFile(name)
		remote := rastertest.NewRemote(bytes.NewReader(b))
		if err == nil {
			all = append(all, remote)
		}
		return remote, int64(len(b)), err
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

func TestRangesOfGDALFiles(t *testing.T) {
	dir, files := gdalMatrix(t, "3")
	r := rand.New(rand.NewPCG(3, 4))
	for _, m := range files {
		path := filepath.Join(dir, m.Name)
		local, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if local.CheckReadable() != nil {
			local.Close()
			continue
		}
		s, remotes := openRemote(t, path)
		if d := cmp.Diff(local.Info(), s.Info(), cmp.AllowUnexported(raster.CRS{})); d != "" {
			t.Errorf("%s: %s", m.Name, d)
		}
		for _, remote := range remotes[1:] {
			remote.Strict()
		}
		t.Run(m.Name, func(t *testing.T) { rastertest.Ranges(t, r, remotes[0], s, local) })
		s.Close()
		local.Close()
	}
}

func TestKeptTilesFetchedOnce(t *testing.T) {
	b := tiffInMemory(t, 256, 256, 64, 2, 1)
	remote := rastertest.NewRemote(bytes.NewReader(b))
	f, err := OpenAt(remote, int64(len(b)), "memory.tif", nil)
	if err != nil {
		t.Fatal(err)
	}
	remote.Strict()
	all, err := f.Ranges(t.Context(), []int{1}, f.Info().Grid.Window(), true)
	if err != nil {
		t.Fatal(err)
	}
	f.SetCache(tilecache.New(1<<20), func(raster.Window) int { return 8 })
	fetched := remote.Fetched()
	for row := 0; row < 256; row += 8 {
		if err := f.Read(t.Context(), []int{1}, raster.Window{Row: row, Width: 256, Height: 8},
			ndarray.New(ndarray.Uint16, 1, 8, 256)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := remote.Fetched()-fetched, driver.RangeBytes(all); got != want {
		t.Errorf("%d bytes were fetched, the tiles have %d", got, want)
	}
}

// closing records whether it was closed.
type closing struct {
	io.ReaderAt
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestCloseClosesReaders(t *testing.T) {
	b := tiffInMemory(t, 64, 64, 64, 2, 1)
	mask := &closing{ReaderAt: bytes.NewReader(tiffInMemory(t, 64, 64, 64, 2, 1))}
	none := func(string, bool) (io.ReaderAt, int64, string, error) { return nil, 0, "", fs.ErrNotExist }
	sidecars := func(suffix string, instead bool) (io.ReaderAt, int64, string, error) {
		if suffix == ".msk" {
			return mask, int64(len(b)), "memory.tif.msk", nil
		}
		return none(suffix, instead)
	}
	main := &closing{ReaderAt: bytes.NewReader(b)}
	f, err := OpenAt(main, int64(len(b)), "memory.tif", sidecars)
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

func TestRangesErrors(t *testing.T) {
	f := openBytes(t, tiffInMemory(t, 64, 64, 64, 2, 1))
	for _, c := range []struct {
		bands []int
		w     raster.Window
	}{{[]int{2}, raster.Window{Width: 1, Height: 1}}, {[]int{0}, raster.Window{Width: 1, Height: 1}},
		{[]int{1}, raster.Window{Width: 65, Height: 1}}, {[]int{1}, raster.Window{Col: -1, Width: 1, Height: 1}}} {
		if _, err := f.Ranges(t.Context(), c.bands, c.w, true); err == nil {
			t.Errorf("bands %v of %v: no error", c.bands, c.w)
		}
	}
	if list, err := f.Ranges(t.Context(), nil, raster.Window{Width: 9, Height: 9}, false); err != nil || len(list) > 0 {
		t.Errorf("no band: %v, %v", list, err)
	}
}
