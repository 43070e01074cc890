package geotiff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"leat/internal/driver"
	"leat/internal/tilecache"
	"leat/ndarray"
	"leat/raster"
)

// File is an open GeoTIFF or one of its overviews. It is a raster.Source, tilecache.Source,
// raster.OverviewSource, raster.RangeLister and raster.Decodable. It is a raster.Masker if
// Info().Mask is raster.MaskDataset. Read and ReadMask may be called concurrently.
type File struct {
	info    *raster.Info
	im      *image
	masks   []*image  // bands of 0 and nonzero, all of one size; a pixel is valid if all are nonzero
	values  []float64 // NODATA_VALUES by band if they are the mask, else nil
	fill    [][]byte  // by band: the pixel of missing tiles
	found   []level
	levels  []*File // made from found
	keep    *keeper
	notes   []string // warnings about sidecars
	closers []io.Closer
}

var (
	_ raster.Source         = (*File)(nil)
	_ raster.Masker         = (*File)(nil)
	_ tilecache.Source      = (*File)(nil)
	_ raster.OverviewSource = (*File)(nil)
	_ raster.Decodable      = (*File)(nil)
)

// openReader reads all of the file but its pixels, and none of its sidecars.
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

// finish sets what depends on several parts of the file and its sidecars.
func (f *File) finish() {
	f.info.Mask, f.info.MaskFromNodata, f.values = raster.MaskNone, false, nil
	if len(f.masks) == 0 {
		f.values = nodataValues(f.info)
	}
	switch {
	case len(f.masks) > 0:
		f.info.Mask = raster.MaskDataset
		f.info.MaskTile = raster.Size{Width: f.masks[0].tileW, Height: f.masks[0].tileH}
	case f.values != nil:
		f.info.Mask, f.info.MaskFromNodata = raster.MaskDataset, true
		f.info.MaskTile = raster.Size{Width: f.im.tileW, Height: f.im.tileH}
	case alphaMasks(f.info):
		f.info.Mask = raster.MaskAlpha
	}
	f.info.Warnings = append(slices.Clone(f.im.warnings), f.notes...)
	for _, m := range f.masks {
		for _, w := range m.warnings {
			f.info.Warnings = append(f.info.Warnings, "mask: "+w)
		}
	}
	f.fill = make([][]byte, len(f.info.Bands))
	for i, b := range f.info.Bands {
		f.fill[i] = fillBytes(b.Type, b.NodataText)
	}
	f.finishLevels()
}

// Info returns the description of the raster.
func (f *File) Info() *raster.Info { return f.info }

// CheckReadable returns nil if Read can decode the pixels and ReadMask the mask, if there is one.
// Otherwise it returns the error that they would return.
func (f *File) CheckReadable() error {
	for _, im := range append([]*image{f.im}, f.masks...) {
		if im.unreadable != nil {
			return im.unreadable
		}
	}
	return nil
}

// CheckWhole returns an error, which wraps raster.ErrFormat, if the file was cut short: if it ends
// before the data of some tiles of the image or its mask. It looks at no more than maxChecked tiles
// of each, the first and the last ones, and decodes at most one. Other errors are those of reading.
func (f *File) CheckWhole(ctx context.Context) error {
	for _, im := range append([]*image{f.im}, f.masks...) {
		if err := im.checkWhole(ctx); err != nil {
			return err
		}
	}
	return nil
}

// SetCache implements tilecache.Source. A kept pixel-interleaved tile has all its bands.
// Uncompressed files are read by rows and keep nothing.
func (f *File) SetCache(c *tilecache.Cache, uses func(w raster.Window) int) {
	f.keep = nil
	if c != nil && uses != nil {
		f.keep = &keeper{c, uses}
	}
}

// Read implements raster.Source.
func (f *File) Read(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if err := driver.CheckRead(f.info, bands, w, dst); err != nil {
		return err
	}
	targets := make([]target, len(bands))
	for i, b := range bands {
		targets[i] = target{band: b - 1, data: dst.Data, offset: dst.Offset + i*dst.Strides[0],
			rowStride: dst.Strides[1], fill: f.fill[b-1]}
	}
	return f.im.read(ctx, w, targets, f.keep)
}

// ReadMask implements raster.Masker. It returns an error unless Info().Mask is raster.MaskDataset.
func (f *File) ReadMask(ctx context.Context, w raster.Window, dst []byte) error {
	if err := driver.CheckMask(f.info, w, dst); err != nil {
		return err
	}
	if f.values != nil {
		return f.readValuesMask(ctx, w, dst)
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
			if m.spp > 1 { // a tile is read once for each of its bands
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

// Overviews implements raster.OverviewSource.
func (f *File) Overviews() []raster.Size { return slices.Clone(f.info.Overviews) }

// Overview implements raster.OverviewSource.
func (f *File) Overview(i int) (raster.Source, error) {
	if i < 0 || i >= len(f.levels) {
		return nil, fmt.Errorf("%s: overview %d out of range (has %d)", f.info.Path, i, len(f.levels))
	}
	return f.levels[i], nil
}

// Close closes the file and its sidecars. On an overview it has no effect.
func (f *File) Close() error {
	var errs []error
	for _, c := range f.closers {
		errs = append(errs, c.Close())
	}
	f.closers = nil
	return errors.Join(errs...)
}
