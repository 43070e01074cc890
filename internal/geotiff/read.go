package geotiff

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"leat/internal/tiff"
	"leat/internal/tilecache"
	"leat/raster"
)

// target is the destination of one band of a window: rows of pixels in data, rowStride bytes apart.
type target struct {
	band      int // counted from 0
	data      []byte
	offset    int // of the window's first pixel in data
	rowStride int
	fill      []byte // the pixel of missing tiles
}

// row returns n pixels of size bytes at (x, y) of the window.
func (t *target) row(x, y, n, size int) []byte {
	at := t.offset + y*t.rowStride + x*size
	return t.data[at : at+n*size : at+n*size]
}

// keeper shares decoded tiles between reads. A nil keeper does nothing.
type keeper struct {
	cache *tilecache.Cache
	uses  func(w raster.Window) int
}

// read fills the targets with window w, which must be inside the image.
func (im *image) read(ctx context.Context, w raster.Window, targets []target, keep *keeper) error {
	if im.unreadable != nil {
		return im.unreadable
	}
	if w.Empty() || len(targets) == 0 {
		return ctx.Err()
	}
	release, err := im.fetch(ctx, w, targets, keep)
	if err != nil {
		return err
	}
	defer release()
	b := bufferPool.Get().(*buffers)
	defer b.release()
	c0, c1 := w.Col/im.tileW, (w.Col+w.Width-1)/im.tileW
	r0, r1 := w.Row/im.tileH, (w.Row+w.Height-1)/im.tileH
	// Each plane is read once, however many targets have its band.
	for i := range targets {
		group := targets
		plane := 0
		if im.planar {
			plane = targets[i].band
			if slices.ContainsFunc(targets[:i], func(t target) bool { return t.band == plane }) {
				continue
			}
			if len(targets) > 1 {
				group = nil
				for _, t := range targets {
					if t.band == plane {
						group = append(group, t)
					}
				}
			}
		} else if i > 0 {
			break
		}
		start := 0
		if keep != nil {
			start = firstRow(w, r1-r0+1)
		}
		for i := range r1 - r0 + 1 {
			row := r0 + (start+i)%(r1-r0+1)
			for col := c0; col <= c1; col++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				j := &b.jobs[0]
				if j.waits { // for another tile
					j = &b.jobs[1]
				}
				*j = job{im: im, b: b, memory: j.memory, plane: plane, col: col, row: row, window: w, targets: group}
				if err := j.run(ctx, keep); err != nil {
					if before := b.decodeWaiting(); before != nil {
						return before
					}
					return err
				}
				if b.jobs[1].waits {
					if err := b.decodeWaiting(); err != nil {
						return err
					}
				}
			}
		}
	}
	return b.decodeWaiting()
}

// firstRow returns the row of tiles, of n, with which a read starts when it shares tiles with the
// windows to its left and right. It differs between neighbours (at 0, 1/2, 1/4, 3/4 and so on of
// the rows), so that goroutines reading neighbours decode different tiles instead of waiting for
// each other.
func firstRow(w raster.Window, n int) int {
	return n * int(bits.Reverse8(uint8(w.Col/w.Width))) >> 8
}

// buffers holds the memory and the decoder of one read. A pool reuses them.
type buffers struct {
	jobs    [2]job
	decoder tiff.Decoder
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

func (b *buffers) release() {
	for i := range b.jobs {
		m := b.jobs[i].memory
		b.decoder.Trim(&m.packed, &m.tile)
		b.jobs[i] = job{memory: m}
	}
	bufferPool.Put(b)
}

// decodeWaiting decodes and places the tiles that wait: one, or two at once.
func (b *buffers) decodeWaiting() error {
	first, second := &b.jobs[0], &b.jobs[1]
	if !first.waits {
		return nil
	}
	first.waits = false
	if !second.waits {
		return first.complete(first.decompress())
	}
	second.waits = false
	errFirst, errSecond := b.decoder.InflateBoth(first.dst, first.packed, first.full(), second.dst, second.packed,
		second.full())
	if err := first.complete(errFirst); err != nil {
		return err
	}
	return second.complete(errSecond)
}

// tileMemory is the memory of a job.
type tileMemory struct {
	packed []byte // compressed bytes
	tile   []byte // the decoded tile
}

// job is the part of a read that one tile provides.
type job struct {
	im              *image
	b               *buffers
	memory          tileMemory
	plane, col, row int
	window          raster.Window
	targets         []target

	offset, count int64
	part          raster.Window // the part of the tile to read, in pixels of the image
	rows          int           // rows to decode

	packed []byte // compressed bytes
	dst    []byte // where to decode them
	direct bool   // dst is the memory of the target
	waits  bool   // packed is decoded together with that of another tile
}

func (j *job) run(ctx context.Context, keep *keeper) error {
	im := j.im
	var err error
	if j.offset, j.count, err = im.table.at(j.plane*im.table.perPlane + j.row*im.tilesAcross + j.col); err != nil {
		return err
	}
	j.rows = im.tileRows(j.row)
	tile := raster.Window{Col: j.col * im.tileW, Row: j.row * im.tileH, Width: im.tileW, Height: j.rows}
	j.part = tile.Intersect(j.window)
	switch {
	case j.count == 0:
		j.fill()
		return nil
	case im.direct():
		return j.wrap(j.copyRows())
	}
	// Allocates memory only if the file is large enough to fill it.
	have := min(j.count, im.container.size-j.offset)
	if j.offset < 0 || have <= 0 {
		return j.wrap(errOutside)
	}
	want := im.tileBytes(j.rows)
	if want/tiff.Expansion(im.compression) > have { // the tile may end with the image
		j.rows = im.imageRows(j.row)
		if want = im.tileBytes(j.rows); want/tiff.Expansion(im.compression) > have {
			return j.wrap(tiff.ErrShort)
		}
	}
	if keep != nil {
		if uses := keep.uses(tile.Intersect(raster.Window{Width: im.width, Height: im.height})); uses > 1 {
			key := tilecache.Key{Source: im, Plane: j.plane, Col: j.col, Row: j.row}
			return keep.cache.Get(ctx, key, int(want), uses, func(dst []byte) error { return j.decode(dst, have) },
				j.place)
		}
	}
	if j.dst = j.directMemory(int(want)); j.dst != nil {
		j.direct = true
	} else {
		j.dst = tiff.Grow(&j.memory.tile, int(want))
	}
	if err := j.load(have); err != nil {
		return err
	}
	if j.waits = im.inflates(); j.waits {
		return nil
	}
	return j.complete(j.decompress())
}

// directMemory returns the memory of the only target if the tile can be decoded directly into it:
// the whole tile is read, its pixels need no conversion, and the rows of both have the same stride.
func (j *job) directMemory(size int) []byte {
	im := j.im
	if len(j.targets) != 1 || im.conv != convNone || im.perPixel != 1 || j.part.Width != im.tileW ||
		j.part.Height != j.rows {
		return nil
	}
	t := &j.targets[0]
	if t.rowStride != im.rowBytes && j.rows > 1 {
		return nil
	}
	at := t.offset + (j.part.Row-j.window.Row)*t.rowStride + (j.part.Col-j.window.Col)*im.size
	return t.data[at : at+size : at+size]
}

var errOutside = errors.New("its bytes are beyond the end of the file")

// wrap adds the tile to an error of its data.
func (j *job) wrap(err error) error {
	if err == nil || errors.Is(err, raster.ErrFormat) || errors.As(err, new(*readError)) {
		return err
	}
	im := j.im
	kind := "tile"
	if !im.tiled {
		kind = "strip"
	}
	where := fmt.Sprintf("%s at column %d, row %d (%d bytes at %d)", kind, j.col, j.row, j.count, j.offset)
	if im.planar {
		where += fmt.Sprintf(" of band %d", j.plane+1)
	}
	return im.damaged("%s: %v", where, err)
}

// decode reads and decodes the have bytes of the tile into dst, in the machine's byte order.
func (j *job) decode(dst []byte, have int64) error {
	if err := j.load(have); err != nil {
		return err
	}
	j.dst = dst
	if err := j.finish(j.decompress()); err != nil {
		return err
	}
	j.unpredict()
	return nil
}

// load reads the have bytes of the tile.
func (j *job) load(have int64) error {
	im := j.im
	// No codec makes pixels much larger, so bytes beyond this limit do not belong to the tile.
	have = min(have, 2*int64(j.full())+64<<10)
	j.packed = tiff.Grow(&j.memory.packed, int(have))
	if err := im.readAt(j.packed, j.offset); err != nil {
		return err
	}
	if im.reverseBits {
		for i, v := range j.packed {
			j.packed[i] = bits.Reverse8(v)
		}
	}
	return nil
}

// full returns the bytes of a tile of full height.
func (j *job) full() int { return int(j.im.tileBytes(j.im.tileH)) }

func (j *job) decompress() error {
	return j.b.decoder.Decompress(j.im.compression, j.dst, j.packed, j.full())
}

// finish completes a tile that was decompressed with the result err, except for the predictor.
func (j *job) finish(err error) error {
	im, dst := j.im, j.dst
	if needed := int(im.tileBytes(im.imageRows(j.row))); err == tiff.ErrShort && needed < len(dst) {
		// As in GDAL, a tile at the lower edge may end with the image.
		clear(dst[needed:])
		err = j.b.decoder.Decompress(im.compression, dst[:needed], j.packed, j.full())
	}
	if err != nil {
		return j.wrap(err)
	}
	word := im.wordSize()
	if word > 1 && im.predictor != 3 && isBig(im.order) != tiff.NativeBig {
		tiff.SwapWords(dst, word)
	}
	return nil
}

func (j *job) unpredict() {
	im := j.im
	j.b.decoder.Unpredict(im.predictor, j.dst, im.rowBytes, im.size, im.perPixel)
}

// complete finishes the tile and copies it to the targets, unless it was decoded there.
func (j *job) complete(err error) error {
	if err := j.finish(err); err != nil {
		return err
	}
	switch {
	case j.direct:
		j.unpredict()
	case j.predicted():
		j.unpredictRows()
	default:
		j.unpredict()
		j.place(j.dst)
	}
	return nil
}

// predicted reports whether rows of the tile become pixels of the only target by undoing the
// predictor alone.
func (j *job) predicted() bool {
	im := j.im
	return (im.predictor == 2 || im.predictor == 3) && len(j.targets) == 1 && im.conv == convNone && im.perPixel == 1 &&
		j.part.Col == j.col*im.tileW
}

// unpredictRows undoes the predictor from the tile into the target, which saves a copy.
func (j *job) unpredictRows() {
	im, t := j.im, &j.targets[0]
	for y := j.part.Row; y < j.part.Row+j.part.Height; y++ {
		row := j.dst[(y-j.row*im.tileH)*im.rowBytes:][:im.rowBytes]
		dst := t.row(j.part.Col-j.window.Col, y-j.window.Row, j.part.Width, im.size)
		j.b.decoder.UnpredictRow(im.predictor, dst, row, im.size)
	}
}

// place copies the window's part of a decoded tile to the targets.
func (j *job) place(data []byte) {
	im := j.im
	size := im.pixel.Size()
	first := j.part.Col - j.col*im.tileW
	for y := j.part.Row; y < j.part.Row+j.part.Height; y++ {
		src := data[(y-j.row*im.tileH)*im.rowBytes:][:im.rowBytes]
		for i := range j.targets {
			t := &j.targets[i]
			im.placeRow(t.row(j.part.Col-j.window.Col, y-j.window.Row, j.part.Width, size), src, first, j.part.Width,
				j.sample(t))
		}
	}
}

// sample returns the index of a target's band among the samples of a pixel in a tile.
func (j *job) sample(t *target) int {
	if j.im.planar {
		return 0
	}
	return t.band
}

// fill writes the pixels of a missing tile.
func (j *job) fill() {
	size := j.im.pixel.Size()
	for i := range j.targets {
		t := &j.targets[i]
		for y := j.part.Row; y < j.part.Row+j.part.Height; y++ {
			fillRow(t.row(j.part.Col-j.window.Col, y-j.window.Row, j.part.Width, size), t.fill)
		}
	}
}

// copyRows reads rows of an uncompressed tile without the rest of it.
func (j *job) copyRows() error {
	im := j.im
	if want := im.tileBytes(im.imageRows(j.row)); j.count < want {
		return tiff.ErrShort
	} else if j.offset < 0 || j.offset > im.container.size || want > im.container.size-j.offset {
		// The rows before the end of the file could be read, but a partial tile must be an error.
		return errOutside
	}
	swap := isBig(im.order) != tiff.NativeBig
	word, size := im.wordSize(), im.pixel.Size()
	if dst := j.directMemory(int(im.tileBytes(j.rows))); dst != nil {
		if err := im.readAt(dst, j.offset); err != nil {
			return err
		}
		if swap {
			tiff.SwapWords(dst, word)
		}
		return nil
	}
	pixelBytes := im.perPixel * im.size
	n := j.part.Width
	for y := j.part.Row; y < j.part.Row+j.part.Height; y++ {
		at := j.offset + int64(y-j.row*im.tileH)*int64(im.rowBytes) + int64(j.part.Col-j.col*im.tileW)*int64(pixelBytes)
		x, y := j.part.Col-j.window.Col, y-j.window.Row
		if im.perPixel == 1 && im.conv == convNone && len(j.targets) == 1 {
			dst := j.targets[0].row(x, y, n, size)
			if err := im.readAt(dst, at); err != nil {
				return err
			}
			if swap {
				tiff.SwapWords(dst, word)
			}
			continue
		}
		src := j.b.decoder.Scratch(n * pixelBytes)
		if err := im.readAt(src, at); err != nil {
			return err
		}
		if swap {
			tiff.SwapWords(src, word)
		}
		for i := range j.targets {
			t := &j.targets[i]
			im.placeRow(t.row(x, y, n, size), src, 0, n, j.sample(t))
		}
	}
	return nil
}
