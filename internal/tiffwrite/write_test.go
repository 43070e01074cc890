package tiffwrite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// layouts returns specs that vary all that affects the layout of a file.
func layouts() []FileSpec {
	var all []FileSpec
	for n := range 32 {
		s := FileSpec{Width: 300, Height: 200, Bands: 1 + 2*(n&1), Type: ndarray.Uint16, TileWidth: 64, TileHeight: 64,
			Coding: Coding{Compression: Deflate, Predictor: 2}, PixelInterleave: n&2 != 0,
			BigTIFF: n&4 != 0}
		if n&8 != 0 {
			s.Levels = []raster.Size{{Width: 150, Height: 100}, {Width: 75, Height: 50}, {Width: 38, Height: 25}}
		}
		if n&16 != 0 { // tile tables that fit into their entries, and texts of odd length
			s.Width, s.Height, s.Levels = 60+n&2*10, 64, nil
			s.Metadata = map[string]string{"n": strings.Repeat("x", 1+n&7)}
		}
		all = append(all, s)
	}
	return all
}

// readDirectory reads a directory by the specification, without code of this package.
func readDirectory(t *testing.T, b []byte, at uint64, big bool) (tags map[uint16][]uint64, next uint64) {
	t.Helper()
	le := binary.LittleEndian
	sizes := map[uint16]uint64{2: 1, 3: 2, 4: 4, 12: 8, 16: 8}
	word, entry, n := uint64(4), uint64(12), uint64(le.Uint16(b[at:]))
	start := at + 2
	if big {
		word, entry, n, start = 8, 20, le.Uint64(b[at:]), at+8
	}
	number := func(at, size uint64) uint64 {
		switch size {
		case 1:
			return uint64(b[at])
		case 2:
			return uint64(le.Uint16(b[at:]))
		case 4:
			return uint64(le.Uint32(b[at:]))
		}
		return le.Uint64(b[at:])
	}
	tags = map[uint16][]uint64{}
	last := uint16(0)
	for i := range n {
		e := start + i*entry
		tag, size, count := le.Uint16(b[e:]), sizes[le.Uint16(b[e+2:])], number(e+4, word)
		if tag <= last || size == 0 {
			t.Fatalf("tag %d after %d, values of %d bytes", tag, last, size)
		}
		last = tag
		from := e + 4 + word
		if count*size > word {
			if from = number(from, word); from%2 != 0 {
				t.Fatalf("the values of tag %d begin at odd byte %d", tag, from)
			}
		}
		for k := range count {
			tags[tag] = append(tags[tag], number(from+k*size, size))
		}
	}
	return tags, number(start+n*entry, word)
}

func TestWriteCOGLayout(t *testing.T) {
	le := binary.LittleEndian
	for i, s := range layouts() {
		b := newPicture(s, uint64(i)).bytesOf(t, uint64(i))
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("layout %d: %s", i, fmt.Sprintf(format, args...))
		}
		if string(b[:2]) != "II" || le.Uint16(b[2:]) != map[bool]uint16{false: 42, true: 43}[s.BigTIFF] {
			fail("header % x", b[:8])
		}
		header, first := 8, uint64(le.Uint32(b[4:]))
		if s.BigTIFF {
			header, first = 16, le.Uint64(b[8:])
		}
		// GDAL's text between header and directories starts with its length.
		var n int
		if _, err := fmt.Sscanf(string(b[header:header+43]), "GDAL_STRUCTURAL_METADATA_SIZE=%06d bytes\n",
			&n); err != nil {
			fail("ghost area: %v", err)
		}
		if want := (header + 43 + n + 1) / 2 * 2; int(first) != want {
			fail("the first directory is at %d, not at %d", first, want)
		}
		var dirs []map[uint16][]uint64
		var at []uint64
		for next := first; next != 0; {
			at = append(at, next)
			var d map[uint16][]uint64
			d, next = readDirectory(t, b, next, s.BigTIFF)
			dirs = append(dirs, d)
			if next != 0 && next <= at[len(at)-1] {
				fail("directory at %d after %d", next, at[len(at)-1])
			}
		}
		if len(dirs) != 1+len(s.Levels) {
			fail("%d directories", len(dirs))
		}
		firstTile := uint64(len(b))
		var ends uint64 // of the tiles of the previous level, smallest first
		for k, d := range slices.Backward(dirs) {
			z := s.Size(k)
			if d[256][0] != uint64(z.Width) || d[257][0] != uint64(z.Height) || d[322][0] != 64 || d[323][0] != 64 {
				fail("level %d: %v", k, d)
			}
			if k > 0 && (len(d[254]) != 1 || d[254][0] != 1) {
				fail("an overview is not marked as such")
			}
			var levelEnd, last uint64
			for j, o := range d[324] {
				size := d[325][j]
				if o <= last || o < ends {
					fail("tile %d of level %d is at %d, before one of %d", j, k, o, max(last, ends))
				}
				last = o
				firstTile, levelEnd = min(firstTile, o-4), max(levelEnd, o+size+4)
				if uint64(le.Uint32(b[o-4:])) != size || !bytes.Equal(b[o+size-4:o+size], b[o+size:o+size+4]) {
					fail("the frame of tile %d of level %d is wrong", j, k)
				}
			}
			ends = levelEnd
		}
		if ends != uint64(len(b)) {
			fail("the last tile ends at %d of %d", ends, len(b))
		}
		if firstTile <= at[len(at)-1] {
			fail("a tile at %d before a directory at %d", firstTile, at[len(at)-1])
		}
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	for i, s := range layouts()[8:16] {
		p := newPicture(s, 5)
		want := p.bytesOf(t, 0)
		for seed := range uint64(3) {
			if !bytes.Equal(p.bytesOf(t, seed), want) {
				t.Fatalf("layout %d, order %d: other bytes", i, seed)
			}
		}
	}
}

func TestWriteBigTIFFAbove4GiB(t *testing.T) {
	s := FileSpec{Path: "x.tif", Width: 64 << 10, Height: 64, Bands: 1, Type: ndarray.Uint8, TileWidth: 64,
		TileHeight: 64}
	for _, c := range []struct {
		tile int64
		big  bool
	}{{4 << 20, true}, {4<<20 - 64, false}} {
		l, err := newLayout(&s, func(_, i int) TileRef { return TileRef{0, c.tile} })
		if err != nil {
			t.Fatal(err)
		}
		if l.big != c.big || int64(len(l.header())) != l.data {
			t.Errorf("tiles of %d: BigTIFF %v, %d bytes", c.tile, l.big, l.total)
		}
		if !l.big && l.total > 1<<32-1 {
			t.Errorf("a classic file of %d bytes", l.total)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	p := newPicture(layouts()[8], 1)
	p.spec.Path = "out.tif"
	src, tiles := p.spool(t, 3)
	create := func(name string) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	check := func(what string, err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, expected %q in it", what, err, w)
			}
		}
	}
	if full, err := os.OpenFile("/dev/full", os.O_RDWR, 0); err == nil {
		defer full.Close()
		_, err := Write(t.Context(), full, &p.spec, src, tiles)
		check("full disk", err, "out.tif: the disk is full: the file needs ", " bytes")
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full disk: %v", err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by the user")
	cancel(stop)
	if _, err := Write(ctx, create("a"), &p.spec, src, tiles); !errors.Is(err, stop) {
		t.Errorf("cancelled: %v", err)
	}
	_, err := Write(t.Context(), create("b"), &p.spec, src, func(level, i int) TileRef {
		r := tiles(level, i)
		if level == 1 && i == 2 {
			r.Bytes--
		}
		return r
	})
	check("wrong place", err, "out.tif: the tile at byte", "another process changed the file")
	_, err = Write(t.Context(), create("c"), &p.spec, src, func(int, int) TileRef { return TileRef{} })
	check("no place", err, "out.tif: tile 0 of level 0: invalid position 0 or size 0")
	if err := src.Truncate(2000); err != nil {
		t.Fatal(err)
	}
	_, err = Write(t.Context(), create("d"), &p.spec, src, tiles)
	check("truncated spool", err, "out.tif: ", "ends within the tile")
}

func TestFileSpecCheck(t *testing.T) {
	good := FileSpec{Path: "f.tif", Width: 100, Height: 100, Bands: 1, Type: ndarray.Uint8, TileWidth: 32,
		TileHeight: 32}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	nodata := ndarray.ScalarOf(int16(-1))
	for _, c := range []struct {
		change func(*FileSpec)
		want   string
	}{
		{func(s *FileSpec) { s.Width = 0 }, "f.tif: cannot write a raster of 0x100 pixels"},
		{func(s *FileSpec) { s.Width = 1 << 31 }, "larger than a GeoTIFF can be"},
		{func(s *FileSpec) { s.Bands = 65536 }, "f.tif: cannot write 65536 bands"},
		{func(s *FileSpec) { s.TileWidth = 100 }, "sides must be multiples of 16"},
		{func(s *FileSpec) { s.Bands, s.PixelInterleave, s.TileWidth, s.TileHeight = 60000, true, 512, 512 },
			"interleave by band"},
		{func(s *FileSpec) { s.Type = ndarray.NoType }, "element type is missing"},
		{func(s *FileSpec) { s.Coding.Predictor = 7 }, "predictor 7"},
		{func(s *FileSpec) { s.BandInfo = make([]raster.Band, 2) }, "descriptions of 2 bands for a file of 1 bands"},
		{func(s *FileSpec) { s.Nodata = &nodata }, "nodata -1 is of type int16, pixels are uint8"},
		{func(s *FileSpec) { s.Levels = []raster.Size{{Width: 50, Height: 200}} }, "overview 1 of 50x200"},
		{func(s *FileSpec) { s.Levels = []raster.Size{{Width: 100, Height: 100}} }, "overview 1 of 100x100"},
		{func(s *FileSpec) {
			s.Type, s.BandInfo = ndarray.Float32, []raster.Band{{Colors: make([]raster.RGBA, 3)}}
		}, "a colour table needs"},
		{func(s *FileSpec) { s.BandInfo = []raster.Band{{Colors: make([]raster.RGBA, 257)}} },
			"257 entries in the colour table"},
		{func(s *FileSpec) { s.Grid.CRS.Code = "ESRI:102001" }, "ESRI:102001 can't be written"},
		{func(s *FileSpec) { s.Grid.CRS.WKT = "LOCAL_CS[]" }, "no geo keys exist for a LOCAL_CS"},
		{func(s *FileSpec) { s.Grid.CRS.Keys = &raster.GeoKeys{Directory: []uint16{1}} }, "geo keys"},
	} {
		s := good
		c.change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q in it", err, c.want)
		}
	}
	s := good
	s.TileWidth, s.Coding.Predictor = 5, 9
	if err := s.Check(); err == nil || strings.Count(err.Error(), "f.tif:") != 2 {
		t.Errorf("not all faults are named: %v", err)
	}
}

func BenchmarkWrite(b *testing.B) {
	// 3 levels of tiles of the size of a scene's; the spool has them in blocks of 2x2 tiles.
	const tileBytes = 700 << 10
	s := FileSpec{Path: "x.tif", Width: 5490, Height: 5490, Bands: 1, Type: ndarray.Float32, TileWidth: 512,
		TileHeight: 512}
	dir := b.TempDir()
	src, err := os.Create(filepath.Join(dir, "spool"))
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	columns, rows := s.TileGrid(0)
	tile := make([]byte, tileBytes)
	binary.LittleEndian.PutUint32(tile, tileBytes-FrameBytes)
	for range columns * rows {
		if _, err := src.Write(tile); err != nil {
			b.Fatal(err)
		}
	}
	place := func(_, i int) TileRef {
		row, col := i/columns, i%columns
		if row == rows-1 {
			return TileRef{int64(i) * tileBytes, tileBytes}
		}
		at := row/2*2*columns + col/2*4 + row%2*min(2, columns-col/2*2) + col%2
		return TileRef{int64(at) * tileBytes, tileBytes}
	}
	b.SetBytes(int64(columns*rows) * tileBytes)
	for b.Loop() {
		dst, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Write(b.Context(), dst, &s, src, place); err != nil {
			b.Fatal(err)
		}
		dst.Close()
	}
}
