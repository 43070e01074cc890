package geotiff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"leat/ndarray"
	"leat/raster"
)

// File is an open GeoTIFF, or one of its overviews. It is a raster.Source, raster.Tiled, raster.Leveled,
// raster.Readable and, where Info().Mask is raster.MaskDataset, a raster.Masker. Read and ReadMask may be called
// by many goroutines at once.
type File struct {
	info    *raster.Info
	im      *image
	masks   []*image // bands of 0 and not 0, of the same size; all must agree that a pixel counts
	fill    [][]byte // by band: the pixel that a missing tile stands for
	found   []level
	levels  []*File // made of found
	keep    *keeper
	closers []io.Closer
}

var (
	_ raster.Source   = (*File)(nil)
	_ raster.Masker   = (*File)(nil)
	_ raster.Tiled    = (*File)(nil)
	_ raster.Leveled  = (*File)(nil)
	_ raster.Readable = (*File)(nil)
)

// openReader reads everything but the pixels, and nothing beside the file.
func openReader(r io.ReaderAt, size int64, name string) (*File, error) {
	c, at, err := newContainer(r, size, name)
	if err != nil {
		return nil, err
	}
	dirs, err := c.readChain(at)
	if err != nil {
		return nil, err
	}
	im, err := newImage(dirs[0])
	if err != nil {
		return nil, err
	}
	f := &File{im: im}
	if f.info, err = describe(dirs[0], im); err != nil {
		return nil, err
	}
	if err := f.addLevels(dirs); err != nil {
		return nil, err
	}
	f.finish()
	return f, nil
}

// finish works out what depends on the parts of a file together.
func (f *File) finish() {
	f.info.Mask = raster.MaskNone
	switch {
	case len(f.masks) > 0:
		f.info.Mask = raster.MaskDataset
		f.info.MaskTile = raster.Size{Width: f.masks[0].tileW, Height: f.masks[0].tileH}
	case f.info.AlphaBand() > 0:
		f.info.Mask = raster.MaskAlpha
	}
	f.fill = make([][]byte, len(f.info.Bands))
	for i, b := range f.info.Bands {
		f.fill[i] = fillBytes(b.Type, b.NodataText)
	}
	f.finishLevels()
}

// Info describes the raster.
func (f *File) Info() *raster.Info { return f.info }

// Readable returns nil when Read can decode the pixels, and ReadMask the mask where there is one, else the
// error that they would give.
func (f *File) Readable() error {
	for _, im := range append([]*image{f.im}, f.masks...) {
		if im.unreadable != nil {
			return im.unreadable
		}
	}
	return nil
}

// SetCache implements raster.Tiled. Pixel-interleaved tiles are kept with all their bands. Uncompressed files
// are read by rows and keep nothing.
func (f *File) SetCache(c *raster.TileCache, uses func(w raster.Window) int) {
	f.keep = nil
	if c != nil && uses != nil {
		f.keep = &keeper{c, uses}
	}
}

// Read implements raster.Source.
func (f *File) Read(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if err := checkRead(f.info.Path, f.im, bands, w, dst); err != nil {
		return err
	}
	targets := make([]target, len(bands))
	for i, b := range bands {
		targets[i] = target{band: b - 1, data: dst.Data, offset: dst.Offset + i*dst.Strides[0], rowStride: dst.Strides[1], fill: f.fill[b-1]}
	}
	return f.im.read(ctx, w, targets, f.keep)
}

// ReadMask implements raster.Masker. It is an error where Info().Mask is not raster.MaskDataset.
func (f *File) ReadMask(ctx context.Context, w raster.Window, dst []byte) error {
	if len(f.masks) == 0 {
		return fmt.Errorf("%s: it has no mask", f.info.Path)
	}
	if w.Width < 0 || w.Height < 0 || !f.info.Grid.Window().Contains(w) || len(dst) != w.Width*w.Height {
		return fmt.Errorf("%s: a mask of window %v and %d bytes asked for, the raster has %d x %d pixels", f.info.Path, w, len(dst), f.im.width, f.im.height)
	}
	var more []byte
	first := true
	for _, m := range f.masks {
		for band := 0; band < m.spp; band++ {
			buf := dst
			if !first {
				if more == nil {
					more = make([]byte, len(dst))
				}
				buf = more
			}
			t := []target{{band: band, data: buf, rowStride: w.Width, fill: []byte{0}}}
			keep := f.keep
			if m.spp > 1 { // each tile would be read once for each band
				keep = nil
			}
			if err := m.read(ctx, w, t, keep); err != nil {
				return fmt.Errorf("mask: %w", err)
			}
			for i, v := range buf {
				if v != 0 {
					buf[i] = 255
				}
				if !first {
					dst[i] &= buf[i]
				}
			}
			first = false
		}
	}
	return nil
}

// Overviews implements raster.Leveled.
func (f *File) Overviews() []raster.Size { return slices.Clone(f.info.Overviews) }

// Overview implements raster.Leveled.
func (f *File) Overview(i int) (raster.Source, error) {
	if i < 0 || i >= len(f.levels) {
		return nil, fmt.Errorf("%s: overview %d asked for, it has %d", f.info.Path, i, len(f.levels))
	}
	return f.levels[i], nil
}

// Close closes the file and those beside it. On an overview it does nothing.
func (f *File) Close() error {
	var errs []error
	for _, c := range f.closers {
		errs = append(errs, c.Close())
	}
	f.closers = nil
	return errors.Join(errs...)
}
