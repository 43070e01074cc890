package geotiff

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"leat/internal/tiff"
	"leat/raster"
)

// tilesPerChunk is the number of entries of the tile table that are read at once. The table of a
// small file takes two reads; of a huge one, only the necessary part is read.
const tilesPerChunk = 4096

// tileTable holds offsets and sizes of the tiles. It is read in chunks on demand, so that a header
// that claims billions of tiles takes no memory. It is safe for concurrent use.
type tileTable struct {
	c        *container
	offsets  field
	counts   field
	estimate bool // the file gives no byte counts
	oneStrip bool
	n        int
	chunks   []atomic.Pointer[tileChunk]
	perPlane int
}

type tileChunk struct{ offset, count []int64 }

// If the table of byte counts is shorter than that of offsets, libtiff 4.5 treats the other tiles
// as missing if it has at most fewCounts entries, and else fails to read them.
const (
	fewCounts    = 4
	countMissing = -1
)

// init finds the tables of im in d.
func (t *tileTable) init(d *directory, im *image) error {
	planes := 1
	if im.planar {
		planes = im.spp
	}
	perPlane := int64(im.tilesAcross) * int64(im.tilesDown)
	if perPlane > math.MaxInt32/int64(planes) {
		return d.unsupported("a file of more than 2^31 tiles", "-co TILED=YES -co BIGTIFF=YES ")
	}
	t.c, t.perPlane, t.n = d.container, int(perPlane), int(perPlane)*planes
	t.oneStrip = t.n == 1 && !im.tiled
	pick := func(tags ...uint16) (field, bool) {
		for _, tag := range tags {
			if f, ok := d.fields[tag]; ok {
				return f, true
			}
		}
		return field{}, false
	}
	var ok, counted bool
	if im.tiled {
		t.offsets, ok = pick(tiff.TagTileOffsets, tiff.TagStripOffsets)
		t.counts, counted = pick(tiff.TagTileByteCounts, tiff.TagStripByteCounts)
	} else {
		t.offsets, ok = pick(tiff.TagStripOffsets, tiff.TagTileOffsets)
		t.counts, counted = pick(tiff.TagStripByteCounts, tiff.TagTileByteCounts)
	}
	if !ok {
		return d.damaged("no table of tile offsets")
	}
	if t.estimate = !counted; t.estimate {
		t.counts.count = t.offsets.count
	}
	for _, f := range []field{t.offsets, t.counts} {
		switch f.typ {
		case 0:
			continue
		case tiff.TypeASCII, tiff.TypeUndefined, tiff.TypeRational, tiff.TypeSRational, tiff.TypeFloat, tiff.TypeDouble:
			return d.damaged("table of tiles of type %d", f.typ)
		}
		if size := int64(f.count) * int64(f.size()); size > d.size || f.at > d.size-size {
			return d.damaged("the table of tiles is beyond the end of the file")
		}
	}
	if listed := t.offsets.count; listed < uint64(t.n) {
		return d.damaged("the table of tiles lists %d of %d tiles", listed, t.n)
	}
	if listed := t.counts.count; listed < uint64(t.n) {
		im.warnings = append(im.warnings,
			fmt.Sprintf("the file gives the sizes of %d of %d tiles: the others are treated as missing", listed, t.n))
	}
	t.chunks = make([]atomic.Pointer[tileChunk], (t.n+tilesPerChunk-1)/tilesPerChunk)
	return nil
}

// at returns offset and size of tile i. The size of a missing tile is 0.
func (t *tileTable) at(i int) (offset, count int64, err error) {
	slot := &t.chunks[i/tilesPerChunk]
	c := slot.Load()
	if c == nil { // two readers may both load it, with the same result
		if c, err = t.load(i / tilesPerChunk * tilesPerChunk); err != nil {
			return 0, 0, err
		}
		slot.Store(c)
	}
	offset, count = c.offset[i%tilesPerChunk], c.count[i%tilesPerChunk]
	if count == countMissing {
		return 0, 0, t.c.damaged("the file gives the sizes of %d of %d tiles, but not of tile %d",
			t.counts.count, t.n, i)
	}
	return offset, count, nil
}

func (t *tileTable) load(first int) (*tileChunk, error) {
	n := min(tilesPerChunk, t.n-first)
	c := &tileChunk{}
	var err error
	if c.offset, err = t.numbers(t.offsets, first, n); err != nil {
		return nil, err
	}
	if !t.estimate {
		listed := min(n, max(0, int(min(t.counts.count, math.MaxInt32))-first))
		if c.count, err = t.numbers(t.counts, first, listed); err != nil {
			return nil, err
		}
		absent := int64(countMissing)
		if t.counts.count <= fewCounts {
			absent = 0
		}
		for range n - listed {
			c.count = append(c.count, absent)
		}
		if t.oneStrip && c.count[0] == 0 { // like libtiff: some programs write 0 if they don't know
			c.count[0] = t.bytesToEnd(c.offset[0])
		}
		return c, nil
	}
	c.count = make([]int64, n)
	for i, o := range c.offset {
		c.count[i] = t.bytesToEnd(o)
	}
	return c, nil
}

// maxChecked bounds the tiles that checkWhole looks at, the first and the last ones: the table of a
// file in a store takes a request for each tilesPerChunk of them.
const maxChecked = 1 << 17

// checkWhole returns an error if the file ends before the data of some tiles.
func (im *image) checkWhole(ctx context.Context) error {
	if im.unreadable != nil {
		return nil
	}
	missing, partial, last, needed := 0, 0, 0, int64(0)
	n := min(im.table.n, maxChecked)
	for i := range n {
		if i >= maxChecked/2 { // the last ones, which most programs write last
			i += im.table.n - n
		}
		offset, count, err := im.table.at(i)
		switch {
		case err != nil:
			return err
		case count == 0:
			continue
		case offset >= im.container.size:
			missing++
		case count > im.container.size-offset:
			partial, last = partial+1, i
		default:
			continue
		}
		needed = max(needed, offset+min(count, math.MaxInt64-offset))
	}
	if partial > 0 {
		err := im.checkTile(ctx, last)
		if err != nil && !errors.Is(err, raster.ErrFormat) {
			return err
		}
		if err != nil { // else the sizes of tiles are too large
			missing += partial
		}
	}
	if missing == 0 {
		return nil
	}
	kind := "tiles"
	if !im.tiled {
		kind = "strips"
	}
	if n < im.table.n {
		kind += " that were checked"
	}
	return im.damaged("%d of %d %s lie wholly or partly beyond the end of the file, which has %d bytes and needs %d", missing, n, kind,
		im.container.size, needed)
}

// checkTile returns the error of reading a tile.
func (im *image) checkTile(ctx context.Context, i int) error {
	plane, i := i/im.table.perPlane, i%im.table.perPlane
	w := raster.Window{Col: i % im.tilesAcross * im.tileW, Row: i / im.tilesAcross * im.tileH, Width: 1, Height: 1}
	size := im.pixel.Size()
	t := target{band: plane, data: make([]byte, size), rowStride: size, fill: make([]byte, size)}
	return im.read(ctx, w, []target{t}, nil)
}

// bytesToEnd returns the number of bytes from offset to the end of the file, or 0 for a missing
// tile, whose offset is 0.
func (t *tileTable) bytesToEnd(offset int64) int64 {
	if offset == 0 {
		return 0
	}
	return max(0, t.c.size-offset)
}

func (t *tileTable) numbers(f field, first, n int) ([]int64, error) {
	raw := make([]byte, n*f.size())
	if err := t.c.readAt(raw, f.at+int64(first)*int64(f.size())); err != nil {
		return nil, err
	}
	out := make([]int64, n)
	for i := range out {
		v, ok := t.c.uintAt(raw, f.typ, i)
		if !ok {
			return nil, t.c.damaged("the table of tiles has a negative number for tile %d", first+i)
		}
		out[i] = int64(min(v, math.MaxInt64))
	}
	return out, nil
}
