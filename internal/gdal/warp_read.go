package gdal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"leat/internal/driver"
	"leat/internal/scalarvalue"
	"leat/ndarray"
	"leat/raster"
)

// transformerAddress returns the address of GDALGenImgProjTransform, which GDAL accepts as a
// pointer.
var transformerAddress = sync.OnceValues(func() (uintptr, error) {
	library, _, err := find() // the library that is already loaded
	if err != nil {
		return 0, err
	}
	return dlsym(library, "GDALGenImgProjTransform")
})

// transformer holds what one handle of the input needs to be warped. It belongs to the handle's
// owner.
type transformer struct {
	w          *Warped
	h          hDataset
	t          hTransformer
	operations map[string]hOperation
	z          []float64
	ok         []int32
}

// transformer returns the transformer of a handle, which the caller has acquired.
func (w *Warped) transformer(h hDataset) (*transformer, error) {
	w.mu.Lock()
	l := w.lenses[h]
	w.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l = &transformer{w: w, h: h, operations: map[string]hOperation{}}
	var options []string
	if w.crs != "" {
		options = append(options, "DST_SRS="+w.crs)
	}
	// The reference's own transform gives the same coordinates as for its pixels.
	six := w.grid.Transform
	six[0] -= float64(float64(w.shift[0])*six[1]) + float64(float64(w.shift[1])*six[2])
	six[3] -= float64(float64(w.shift[0])*six[4]) + float64(float64(w.shift[1])*six[5])
	onThread(func() {
		if text := normalizedText(c.GDALGetSpatialRef(h)); text != "" {
			options = append(options, "SRC_SRS="+text)
		}
	})
	err := tryWarp(w.src.info.Path, "transform coordinates to the reference grid", func() bool {
		if l.t = c.GDALCreateGenImgProjTransformer2(h, 0, cStrings(options)); l.t != nil {
			c.GDALSetGenImgProjTransformerDstGeoTransform(l.t, &six[0])
		}
		return l.t != nil
	})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.lenses[h] = l
	w.mu.Unlock()
	return l, nil
}

// dropTransformers frees all transformers. None may be in use.
func (w *Warped) dropTransformers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	onThread(func() {
		for _, l := range w.lenses {
			for _, o := range l.operations {
				c.GDALDestroyWarpOperation(o)
			}
			c.GDALDestroyGenImgProjTransformer(l.t)
		}
	})
	clear(w.lenses)
}

// tryWarp is try for calls that transform coordinates: it ignores PROJ's messages about points
// without an image.
func tryWarp(path, op string, f func() bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.CPLErrorReset()
	if ok := f(); ok && (c.CPLGetLastErrorType() < classFailure || strings.HasPrefix(c.CPLGetLastErrorMsg(),
		"PROJ: ")) {
		return nil
	}
	return lastError(path, op)
}

// manyPoints is the number of points that GDAL transforms at once.
const manyPoints = 4096

func (l *transformer) toLattice(x, y []float64, ok []bool) error { return l.transform(0, x, y, ok) }
func (l *transformer) toInput(x, y []float64, ok []bool) error   { return l.transform(1, x, y, ok) }

func (l *transformer) transform(toInput int32, x, y []float64, ok []bool) error {
	for len(x) > 0 {
		n := min(len(x), manyPoints)
		l.z, l.ok = slices.Grow(l.z[:0], n)[:n], slices.Grow(l.ok[:0], n)[:n]
		clear(l.z)
		clear(l.ok)
		// The result says whether all points have an image.
		if err := tryWarp(l.w.src.info.Path, "transform coordinates", func() bool {
			c.GDALGenImgProjTransform(l.t, toInput, int32(n), &x[0], &y[0], &l.z[0], &l.ok[0])
			return true
		}); err != nil {
			return err
		}
		for i := range n {
			ok[i] = l.ok[i] != 0 && !math.IsNaN(x[i]) && !math.IsInf(x[i], 0) && !math.IsNaN(y[i]) && !math.IsInf(y[i],
				0)
		}
		x, y, ok = x[n:], y[n:], ok[n:]
	}
	return nil
}

// work is what an operation computes, without the window.
type work struct {
	bands  []int // of the input, without alpha
	nodata bool  // apply the input's nodata
	alpha  bool
}

// typ returns GDAL's pixel type for k, and its size in bytes.
func (w *Warped) typ(k work) (typ int32, size int) {
	t := w.info.Bands[k.bands[0]-1].Type
	return gdalType(t), t.Size()
}

// operation creates the operation for k; to is the raster with the alpha band, if there is one.
func (l *transformer) operation(k work, to hDataset) (hOperation, error) {
	w := l.w
	typ, _ := w.typ(k)
	n := len(k.bands)
	from, numbers := make([]int32, n), make([]int32, n)
	for i, b := range k.bands {
		from[i], numbers[i] = int32(b), int32(i+1)
		if to != 0 { // only inspected, and it has one band
			numbers[i] = 1
		}
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	// The buffer is filled beforehand; INIT_DEST only says so.
	options := []string{"XSCALE=" + number(w.xs), "YSCALE=" + number(w.ys), "NUM_THREADS=1", "INIT_DEST=0"}
	if w.masked {
		// Otherwise a chunk's nodata, if it has any, would replace the mask.
		options = append(options, "UNIFIED_SRC_NODATA=NO")
	}
	var nodata, imaginary []float64
	if k.nodata && slices.ContainsFunc(k.bands, func(b int) bool { return w.nodata[b-1] != nil }) {
		nodata, imaginary = make([]float64, n), make([]float64, n)
		for i, b := range k.bands {
			nodata[i] = noValue
			if v := w.nodata[b-1]; v != nil {
				nodata[i] = v.Float64()
			}
		}
	}
	var o hOperation
	list := cStrings(options)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(list)
	pin.Pin(&from[0])
	pin.Pin(&numbers[0])
	err := tryWarp(w.src.info.Path, "warp", func() bool {
		p := c.GDALCreateWarpOptions()
		p.options, p.method, p.working, p.from, p.to = list, w.method.number, typ, l.h, to
		p.count, p.fromBands, p.toBands = int32(n), &from[0], &numbers[0]
		if nodata != nil {
			pin.Pin(&nodata[0])
			pin.Pin(&imaginary[0])
			p.fromNodata, p.fromNodataImag = &nodata[0], &imaginary[0]
			if !k.alpha {
				p.toNodata, p.toNodataImag = &nodata[0], &imaginary[0]
			}
		}
		if k.alpha {
			p.fromAlpha, p.toAlpha = int32(w.alpha), 1
		}
		p.transformer, p.transformerData = w.address, l.t
		o = c.GDALCreateWarpOperation(p) // copies the options
		p.options, p.fromBands, p.toBands, p.fromNodata, p.fromNodataImag, p.toNodata, p.toNodataImag = nil, nil, nil,
			nil, nil, nil, nil
		c.GDALDestroyWarpOptions(p)
		return o != 0
	})
	runtime.KeepAlive(list)
	return o, err
}

// noValue is what gdalwarp uses as the nodata of a band without one if other bands have it.
const noValue = -123456.789

// cachedOperation returns the operation for k without alpha, which is created once.
func (l *transformer) cachedOperation(k work) (hOperation, error) {
	key := fmt.Sprint(k)
	if o, ok := l.operations[key]; ok {
		return o, nil
	}
	o, err := l.operation(k, 0)
	if err == nil {
		l.operations[key] = o
	}
	return o, err
}

// piece is a part of a window that is warped at once: at is in GDAL's columns and rows, from in
// those of the input.
type piece struct {
	at, from raster.Window
	reach    reach
}

// pieces calls f for parts of window at, in GDAL's columns and rows, each within the memory limit
// for pixels of size bytes. It skips parts without input.
func (l *transformer) pieces(ctx context.Context, at raster.Window, size int, f func(p piece) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := l.w
	r, err := reachOf(l, at)
	if err != nil {
		return err
	}
	// The filter's radius grows with reduction. Average and similar methods treat a pixel whose
	// corners are near the first and the last column of their input as one that wraps around the
	// earth: two more steps on all sides prevent that.
	radius := func(scale float64) int {
		return int(math.Ceil(float64(max(w.method.radius, 2))/math.Min(scale, 1))) + 2
	}
	p := piece{at, r.source(radius(w.xs), radius(w.ys), w.size), r}
	if p.from.Empty() {
		return nil
	}
	if w.method.number == methods["mode"].number {
		size += 8 // GDAL's tables
	}
	if cost := p.from.Pixels()*int64(size) + at.Pixels()*int64(size); cost <= w.memory || at.Pixels() == 1 {
		return f(p)
	}
	a, b := halves(at)
	if err := l.pieces(ctx, a, size, f); err != nil {
		return err
	}
	return l.pieces(ctx, b, size, f)
}

// run warps p into pixels, which has the rows of p.at band after band and already holds initial
// values. alpha is the memory of the alpha band.
func (l *transformer) run(k work, p piece, pixels, alpha []byte) error {
	o, to, err := hOperation(0), hDataset(0), error(nil)
	if !k.alpha {
		o, err = l.cachedOperation(k)
	} else if to, err = l.alphaBand(k, p.at, alpha); err == nil {
		defer closeDataset(to)
		if o, err = l.operation(k, to); err == nil {
			defer onThread(func() { c.GDALDestroyWarpOperation(o) })
		}
	}
	if err != nil {
		return err
	}
	typ, _ := l.w.typ(k)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&pixels[0])
	if alpha != nil {
		pin.Pin(&alpha[0])
	}
	return tryWarp(l.w.src.info.Path, "warp", func() bool {
		return c.GDALWarpRegionToBuffer(o, int32(p.at.Col), int32(p.at.Row), int32(p.at.Width), int32(p.at.Height),
			unsafe.Pointer(&pixels[0]), typ,
			int32(p.from.Col), int32(p.from.Row), int32(p.from.Width), int32(p.from.Height)) == 0
	})
}

// alphaBand creates a raster from GDAL's column and row 0 to the end of window at, of which only
// the window has memory: alpha.
func (l *transformer) alphaBand(k work, at raster.Window, alpha []byte) (to hDataset, err error) {
	typ, size := l.w.typ(k)
	first := uintptr(unsafe.Pointer(&alpha[0])) - uintptr((at.Row*at.Width+at.Col)*size)
	options := []string{fmt.Sprintf("DATAPOINTER=%#x", first), fmt.Sprintf("PIXELOFFSET=%d", size),
		fmt.Sprintf("LINEOFFSET=%d", at.Width*size)}
	err = try(l.w.src.info.Path, "warp", func() bool {
		to = c.GDALCreate(c.GDALGetDriverByName("MEM"), "", int32(at.Col+at.Width), int32(at.Row+at.Height), 0, typ,
			nil)
		if to == 0 || c.GDALAddBand(to, typ, cStrings(options)) != 0 {
			return false
		}
		return c.GDALSetRasterColorInterpretation(c.GDALGetRasterBand(to, 1), 6) == 0 // GCI_AlphaBand
	})
	if err != nil && to != 0 {
		closeDataset(to)
	}
	return to, err
}

// Read implements raster.Source.
func (w *Warped) Read(ctx context.Context, bands []int, at raster.Window, dst *ndarray.Array) error {
	if err := checkRead(&w.info, bands, at, dst); err != nil {
		return err
	}
	if at.Empty() || len(bands) == 0 {
		return ctx.Err()
	}
	for i, b := range bands {
		row := bytes.Repeat(w.fillValue(b), at.Width)
		for y := range at.Height {
			copy(w.rowOf(dst, i, y, at.Width), row)
		}
	}
	k := work{nodata: true, alpha: w.alpha > 0}
	var places []int // index in k.bands of each of bands
	for _, b := range bands {
		if b == w.alpha {
			places = append(places, -1)
			continue
		}
		place := slices.Index(k.bands, b)
		if place < 0 {
			place = len(k.bands)
			k.bands = append(k.bands, b)
		}
		places = append(places, place)
	}
	if len(k.bands) == 0 {
		k.bands = []int{1}
	}
	k.bands = w.requiredBands(k.bands)
	h, err := w.src.acquire(ctx)
	if err != nil {
		return err
	}
	defer w.src.release(h)
	l, err := w.transformer(h)
	if err != nil {
		return err
	}
	_, size := w.typ(k)
	lattice := at.Shift(w.origin[0]+w.shift[0], w.origin[1]+w.shift[1])
	straight := dst.Contiguous() && !k.alpha && slices.Equal(bands, k.bands)
	return l.pieces(ctx, lattice, size*len(k.bands), func(p piece) error {
		if err := l.check(ctx, bands, p.from, false); err != nil {
			return err
		}
		if straight && p.at == lattice {
			return l.run(k, p, dst.Raw(), nil)
		}
		n := int(p.at.Pixels()) * size
		pixels := make([]byte, 0, n*len(k.bands))
		for _, b := range k.bands {
			pixels = append(pixels, bytes.Repeat(w.fillValue(b), int(p.at.Pixels()))...)
		}
		var alpha []byte
		if k.alpha {
			alpha = make([]byte, n)
		}
		if err := l.run(k, p, pixels, alpha); err != nil {
			return err
		}
		for i, place := range places {
			from := alpha
			if place >= 0 {
				from = pixels[place*n : (place+1)*n]
			}
			width := p.at.Width * size
			for y := range p.at.Height {
				to := w.rowOf(dst, i, p.at.Row-lattice.Row+y, at.Width)
				copy(to[(p.at.Col-lattice.Col)*size:][:width], from[y*width:])
			}
		}
		return nil
	})
}

// requiredBands adds to the bands the ones that GDAL must warp along with them.
func (w *Warped) requiredBands(bands []int) []int {
	typ := w.info.Bands[bands[0]-1].Type
	nodata := slices.ContainsFunc(w.nodata, func(v *ndarray.Scalar) bool { return v != nil })
	switch {
	case w.masked && len(bands) == 1 && w.nodata[bands[0]-1] != nil:
		// With one band, nodata would replace the mask; with two, even the same one twice, both
		// apply.
		return append(bands, bands[0])
	case w.masked || !nodata || w.method.radius == 0:
		return bands
	}
	// GDAL omits a filtered pixel whose centre has nodata in all bands, but not if only some bands
	// have it: the result depends on the set of bands.
	for i, b := range w.info.Bands {
		if n := i + 1; b.Type == typ && n != w.alpha && !slices.Contains(bands, n) {
			bands = append(bands, n)
		}
	}
	return bands
}

// rowOf returns row y of the i-th band of an array.
func (w *Warped) rowOf(a *ndarray.Array, i, y, width int) []byte {
	return a.Data[a.Offset+i*a.Strides[0]+y*a.Strides[1]:][:width*a.Type.Size()]
}

// fillValue returns the pixel of band b where the input yields none: nodata, or 0.
func (w *Warped) fillValue(b int) []byte {
	pixel := make([]byte, w.info.Bands[b-1].Type.Size())
	if v := w.info.Bands[b-1].Nodata; v != nil {
		scalarvalue.Put(*v, pixel)
	}
	return pixel
}

// ReadMask implements raster.Masker: 0 where the input yields no pixel, or one that its mask
// excludes.
func (w *Warped) ReadMask(ctx context.Context, at raster.Window, dst []byte) error {
	if err := driver.CheckMask(&w.info, at, dst); err != nil || at.Empty() {
		return errors.Join(err, ctx.Err())
	}
	clear(dst)
	h, err := w.src.acquire(ctx)
	if err != nil {
		return err
	}
	defer w.src.release(h)
	l, err := w.transformer(h)
	if err != nil {
		return err
	}
	k := work{bands: []int{1}}
	_, size := w.typ(k)
	lattice := at.Shift(w.origin[0]+w.shift[0], w.origin[1]+w.shift[1])
	return l.parts(ctx, lattice, size, func(p piece) error {
		if err := l.check(ctx, k.bands, p.from, true); err != nil {
			return err
		}
		valid, err := l.written(k, p)
		if err != nil {
			return err
		}
		for y := range p.at.Height {
			to := dst[(p.at.Row-lattice.Row+y)*at.Width+p.at.Col-lattice.Col:][:p.at.Width]
			for x := range to {
				if valid == nil || valid[y*p.at.Width+x] {
					to[x] = 255
				}
			}
		}
		return nil
	})
}

// edgePixels is the approximate number of pixels in a part at the input's edge. There, two warps
// find which pixels GDAL yields; other parts need no warp.
const edgePixels = 64 * 64

// parts is pieces for a mask: it divides parts at the input's edge further than parts inside it.
func (l *transformer) parts(ctx context.Context, at raster.Window, size int, f func(p piece) error) error {
	if l.w.masked || at.Pixels() <= edgePixels {
		return l.pieces(ctx, at, size, f)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := reachOf(l, at)
	switch {
	case err != nil:
		return err
	case r.none:
		return nil
	case r.inside(l.w.size):
		return f(piece{at: at, reach: r})
	}
	a, b := halves(at)
	if err := l.parts(ctx, a, size, f); err != nil {
		return err
	}
	return l.parts(ctx, b, size, f)
}

// halves divides a window across its longer side.
func halves(w raster.Window) (a, b raster.Window) {
	a, b = w, w
	if w.Width > w.Height {
		a.Width /= 2
		b.Col, b.Width = b.Col+a.Width, b.Width-a.Width
	} else {
		a.Height /= 2
		b.Row, b.Height = b.Row+a.Height, b.Height-a.Height
	}
	return a, b
}

// written returns which pixels of p GDAL yields, nil for all. GDAL does not report that. Unless it
// is certain beforehand, written warps twice, over different initial values: GDAL did not write a
// pixel that keeps both.
func (l *transformer) written(k work, p piece) ([]bool, error) {
	if !l.w.masked && p.reach.inside(l.w.size) {
		return nil, nil
	}
	_, size := l.w.typ(k)
	valid := make([]bool, p.at.Pixels())
	left := len(valid)
	for _, filling := range []byte{0x5b, 0xa7} {
		pixels := bytes.Repeat([]byte{filling}, len(valid)*size)
		if err := l.run(k, p, pixels, nil); err != nil {
			return nil, err
		}
		same := bytes.Repeat([]byte{filling}, size)
		for i := range valid {
			if !valid[i] && !bytes.Equal(pixels[i*size:(i+1)*size], same) {
				valid[i] = true
				left--
			}
		}
		if left == 0 {
			break
		}
	}
	return valid, nil
}
