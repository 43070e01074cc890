package geotiff

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"leat/internal/driver"
	"leat/internal/rastertest"
	"leat/internal/tiff"
	"leat/internal/tilecache"
	"leat/ndarray"
	"leat/raster"
)

// ramp returns an image of uint16 in which neighbouring pixels differ.
func ramp(bands, height, width int) *ndarray.Array {
	a := ndarray.New(ndarray.Uint16, bands, height, width)
	for i := range ndarray.Slice[uint16](a) {
		ndarray.Slice[uint16](a)[i] = uint16(i*7 + i/width)
	}
	return a
}

// cutTiles divides an image of uint16 into the tiles of a file, interleaved or planar, in the given
// byte order.
func cutTiles(a *ndarray.Array, tileW, tileH int, planar, strips bool, order binary.AppendByteOrder) [][]byte {
	bands, height, width := a.Shape[0], a.Shape[1], a.Shape[2]
	pix := ndarray.Slice[uint16](a)
	groups := [][]int{}
	for b := range bands {
		if planar || b == 0 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], b)
	}
	var tiles [][]byte
	for _, g := range groups {
		for row := 0; row < height; row += tileH {
			for col := 0; col < width; col += tileW {
				var t []byte
				for y := range tileH {
					if strips && row+y >= height {
						break
					}
					for x := range tileW {
						for _, b := range g {
							v := uint16(0xdead)
							if row+y < height && col+x < width {
								v = pix[(b*height+row+y)*width+col+x]
							}
							t = order.AppendUint16(t, v)
						}
					}
				}
				tiles = append(tiles, t)
			}
		}
	}
	return tiles
}

func TestSourceConformance(t *testing.T) {
	want := ramp(3, 75, 91)
	tags := plain(91, 75, 16, 3, tiff.FormatUint, tiff.CompressionNone)
	files := map[string][]byte{
		"strips of pixels, big-endian": handmade(binary.BigEndian,
			append(tags, tag{tiff.TagRowsPerStrip, tiff.TypeShort, []uint64{8}}),
			tiff.TagStripOffsets, tiff.TagStripByteCounts, cutTiles(want, 91, 8, false, true, binary.BigEndian)),
		"tiles of bands, little-endian": handmade(binary.LittleEndian,
			append(tags, tag{tiff.TagPlanarConfig, tiff.TypeShort, []uint64{tiff.PlanarBand}},
				tag{tiff.TagTileWidth, tiff.TypeShort, []uint64{32}},
				tag{tiff.TagTileLength, tiff.TypeShort, []uint64{16}}),
			tiff.TagTileOffsets, tiff.TagTileByteCounts, cutTiles(want, 32, 16, true, false, binary.LittleEndian)),
	}
	for name, b := range files {
		t.Run(name, func(t *testing.T) {
			rastertest.Run(t, func(t testing.TB) raster.Source { return openBytes(t, b) }, want)
		})
	}
	packed := tiffInMemory(t, 100, 90, 32, 2, 3)
	t.Run("deflate with predictor 2", func(t *testing.T) {
		rastertest.Run(t, func(t testing.TB) raster.Source { return openBytes(t, packed) },
			readAll(t, openBytes(t, packed)))
	})
	pix := sceneLike(100*3, 90)
	for b := range 3 {
		for i, v := range ndarray.Slice[uint16](readBand(t, openBytes(t, packed), b+1)) {
			if v != pix[i*3+b] {
				t.Fatalf("pixel %d of band %d is %d, not %d", i, b, v, pix[i*3+b])
			}
		}
	}
}

// readAll reads all bands of a source at once.
func readAll(t testing.TB, s raster.Source) *ndarray.Array {
	t.Helper()
	i := s.Info()
	a := ndarray.New(i.Bands[0].Type, len(i.Bands), i.Grid.Height, i.Grid.Width)
	bands := make([]int, len(i.Bands))
	for k := range bands {
		bands[k] = k + 1
	}
	if err := s.Read(context.Background(), bands, i.Grid.Window(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestSourceConformanceRealFiles(t *testing.T) {
	root := sharedData(t)
	for _, name := range []string{"rasterio/RGB2.byte.tif", "rasterio/red.tif", "rasterio/rgb_lzw.tif",
		"rasterio/all-nodata.tif", "rasterio/RGBA.uint16.tif", "landsat8/l8_B4.tif"} {
		t.Run(name, func(t *testing.T) {
			open := func(t testing.TB) raster.Source {
				f, err := Open(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			s := open(t)
			want := readAll(t, s)
			s.Close()
			rastertest.Run(t, open, want)
		})
	}
}

// counting counts the reads that start inside the pixels.
type counting struct {
	io.ReaderAt
	n atomic.Int64
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	if len(p) > 2000 {
		c.n.Add(1)
	}
	return c.ReaderAt.ReadAt(p, at)
}

func TestTileDecodedOnce(t *testing.T) {
	b := tiffInMemory(t, 256, 256, 64, 2, 3)
	r := &counting{ReaderAt: bytes.NewReader(b)}
	f, err := openReader(r, int64(len(b)), "memory.tif")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Read(t.Context(), []int{3, 1, 2}, f.Info().Grid.Window(),
		ndarray.New(ndarray.Uint16, 3, 256, 256)); err != nil {
		t.Fatal(err)
	}
	if n := r.n.Swap(0); n != 16 {
		t.Errorf("three bands of 16 tiles: %d tiles decoded", n)
	}
	f.SetCache(tilecache.New(1<<20), func(raster.Window) int { return 2 })
	for row := 0; row < 256; row += 32 {
		if err := f.Read(t.Context(), []int{1, 2, 3}, raster.Window{Row: row, Width: 256, Height: 32},
			ndarray.New(ndarray.Uint16, 3, 32, 256)); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.n.Load(); n != 16 {
		t.Errorf("windows of half a tile: %d tiles decoded", n)
	}
}

func TestReadAllocations(t *testing.T) {
	b := tiffInMemory(t, 512, 512, 32, 2, 1)
	f := openBytes(t, b)
	dst := ndarray.New(ndarray.Uint16, 1, 512, 512)
	read := func() {
		if err := f.Read(context.Background(), []int{1}, f.Info().Grid.Window(), dst); err != nil {
			t.Fatal(err)
		}
	}
	read()
	// For 256 tiles. The race detector drops pooled memory, and the inflater rebuilds some Huffman
	// tables.
	if n := testing.AllocsPerRun(5, read); n > 100 {
		t.Errorf("%v allocations for 256 tiles", n)
	}
}

func TestReadErrorNamesTile(t *testing.T) {
	b := tiffInMemory(t, 128, 128, 64, 2, 1)
	f := openBytes(t, b)
	at, n, err := f.im.table.at(3)
	if err != nil {
		t.Fatal(err)
	}
	b[at+n/2] ^= 0x40
	err = f.Read(t.Context(), []int{1}, f.Info().Grid.Window(), ndarray.New(ndarray.Uint16, 1, 128, 128))
	if !errors.Is(err, raster.ErrFormat) || !bytes.Contains([]byte(err.Error()),
		[]byte("memory.tif: tile at column 1, row 1")) {
		t.Errorf("the error is %v", err)
	}
	if err := f.Read(t.Context(), []int{1}, raster.Window{Width: 128, Height: 64},
		ndarray.New(ndarray.Uint16, 1, 64, 128)); err != nil {
		t.Errorf("tiles that are whole: %v", err)
	}
}

// Tiles are decoded two at once: whichever are damaged, the error is that of the first.
func TestReadErrorNamesFirstTile(t *testing.T) {
	whole := tiffInMemory(t, 320, 64, 64, 2, 1)
	for damaged := range 1 << 5 {
		b := bytes.Clone(whole)
		f := openBytes(t, b)
		first := -1
		for i := range 5 {
			at, n, err := f.im.table.at(i)
			if err != nil {
				t.Fatal(err)
			}
			if damaged>>i&1 == 0 {
				continue
			}
			if first < 0 {
				first = i
			}
			b[at+n/2] ^= 0x40
		}
		err := f.Read(t.Context(), []int{1}, f.Info().Grid.Window(), ndarray.New(ndarray.Uint16, 1, 64, 320))
		if first < 0 {
			if err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, raster.ErrFormat) ||
			!strings.Contains(err.Error(), fmt.Sprintf("memory.tif: tile at column %d, row 0", first)) {
			t.Errorf("damaged tiles %05b: the error is %v", damaged, err)
		}
	}
}

// meanwhile is a remote file whose next Fetch first calls another read.
type meanwhile struct {
	*rastertest.Remote
	read func()
}

func (m *meanwhile) Fetch(ranges []raster.Range, skip func(raster.Range) bool) (release func()) {
	if read := m.read; read != nil {
		m.read = nil
		read()
	}
	return m.Remote.Fetch(ranges, skip)
}

// A tile that another read decodes and releases after it was found missing is not fetched again.
func TestTileFetchedOnce(t *testing.T) {
	b := tiffInMemory(t, 256, 256, 64, 2, 1)
	r := &meanwhile{Remote: rastertest.NewRemote(bytes.NewReader(b))}
	f, err := openReader(r, int64(len(b)), "memory.tif")
	if err != nil {
		t.Fatal(err)
	}
	all := f.Info().Grid.Window()
	listed, err := f.Ranges(t.Context(), []int{1}, all, false)
	if err != nil {
		t.Fatal(err)
	}
	f.SetCache(tilecache.New(1<<20), func(raster.Window) int { return 2 })
	read := func() {
		if err := f.Read(t.Context(), []int{1}, all, ndarray.New(ndarray.Uint16, 1, 256, 256)); err != nil {
			t.Error(err)
		}
	}
	before := r.Fetched()
	r.read = read
	r.Strict()
	read()
	if n, want := r.Fetched()-before, driver.RangeBytes(listed); n != want {
		t.Errorf("%d bytes of %d were fetched", n, want)
	}
}
