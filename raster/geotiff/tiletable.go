package geotiff

import (
	"math"
	"sync/atomic"
)

// tilesPerChunk entries of the tile table are read at once: a small file's table in two reads, a
// huge one's as far as it is needed.
const tilesPerChunk = 4096

// tileTable says where tiles lie. It is read in chunks on demand, so that a header that claims
// billions of tiles takes no memory. Safe for concurrent use.
type tileTable struct {
	c        *container
	offsets  field
	counts   field
	estimate bool // the file gives no byte counts
	n        int
	chunks   []atomic.Pointer[tileChunk]
	perPlane int
}

type tileChunk struct{ offset, count []int64 }

// init finds the table of im in d.
func (t *tileTable) init(d *directory, im *image) error {
	planes := 1
	if im.planar {
		planes = im.spp
	}
	perPlane := int64(im.across) * int64(im.down)
	if perPlane > math.MaxInt32/int64(planes) {
		return d.unsupported("a file of more than 2^31 tiles", "-co TILED=YES -co BIGTIFF=YES ")
	}
	t.c, t.perPlane, t.n = d.container, int(perPlane), int(perPlane)*planes
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
		t.offsets, ok = pick(tagTileOffsets, tagStripOffsets)
		t.counts, counted = pick(tagTileByteCounts, tagStripByteCounts)
	} else {
		t.offsets, ok = pick(tagStripOffsets, tagTileOffsets)
		t.counts, counted = pick(tagStripByteCounts, tagTileByteCounts)
	}
	if !ok {
		return d.damaged("it does not say where its pixels lie")
	}
	if t.estimate = !counted; t.estimate {
		t.counts.count = t.offsets.count
	}
	for _, f := range []field{t.offsets, t.counts} {
		switch f.typ {
		case typeShort, typeLong, typeLong8, typeIFD8, typeIFD:
		case 0:
			continue
		default:
			return d.damaged("its table of tiles is of type %d", f.typ)
		}
		if size := int64(f.count) * int64(f.size()); size > d.size || f.at > d.size-size {
			return d.damaged("its table of tiles lies beyond the end of the file")
		}
	}
	if listed := min(t.offsets.count, t.counts.count); listed < uint64(t.n) {
		return d.damaged("it lists %d of its %d tiles", listed, t.n)
	}
	t.chunks = make([]atomic.Pointer[tileChunk], (t.n+tilesPerChunk-1)/tilesPerChunk)
	return nil
}

// at returns where tile i lies and its bytes; 0 bytes mean that it is not in the file.
func (t *tileTable) at(i int) (offset, count int64, err error) {
	slot := &t.chunks[i/tilesPerChunk]
	c := slot.Load()
	if c == nil { // two readers may both do this, to the same end
		if c, err = t.load(i / tilesPerChunk * tilesPerChunk); err != nil {
			return 0, 0, err
		}
		slot.Store(c)
	}
	return c.offset[i%tilesPerChunk], c.count[i%tilesPerChunk], nil
}

func (t *tileTable) load(first int) (*tileChunk, error) {
	n := min(tilesPerChunk, t.n-first)
	c := &tileChunk{}
	var err error
	if c.offset, err = t.numbers(t.offsets, first, n); err != nil {
		return nil, err
	}
	if !t.estimate {
		c.count, err = t.numbers(t.counts, first, n)
		return c, err
	}
	c.count = make([]int64, n)
	for i, o := range c.offset {
		if o != 0 {
			c.count[i] = max(0, t.c.size-o)
		}
	}
	return c, nil
}

func (t *tileTable) numbers(f field, first, n int) ([]int64, error) {
	raw := make([]byte, n*f.size())
	if err := t.c.readAt(raw, f.at+int64(first)*int64(f.size())); err != nil {
		return nil, err
	}
	out := make([]int64, n)
	for i := range out {
		v, _ := t.c.uintAt(raw, f.typ, i)
		out[i] = int64(min(v, math.MaxInt64))
	}
	return out, nil
}
