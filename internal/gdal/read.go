package gdal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"leat/internal/driver"
	"leat/ndarray"
	"leat/raster"
)

// bytesAtOnce is about how much is read between checks of the context: more than most windows.
const bytesAtOnce = 64 << 20

// Read implements raster.Source. GDAL writes into the array's memory, which must not be mapped from
// a file that can shrink.
func (f *File) Read(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if err := checkRead(&f.info, bands, w, dst); err != nil {
		return err
	}
	if w.Empty() || len(bands) == 0 {
		return ctx.Err()
	}
	if dst.Strides[0] < 0 || dst.Strides[1] < 0 {
		return f.readBackwards(ctx, bands, w, dst)
	}
	h, err := f.acquire(ctx)
	if err != nil {
		return err
	}
	defer f.release(h)
	list := make([]int32, len(bands))
	for i, b := range bands {
		list[i] = int32(b)
	}
	typ, size := gdalType(dst.Type), dst.Type.Size()
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&dst.Data[0])
	return f.slabs(ctx, w, len(bands)*size, f.info.TileHeight, func(y, rows int) error {
		at := unsafe.Pointer(&dst.Data[dst.Offset+y*dst.Strides[1]])
		return try(f.info.Path, "read", func() bool {
			return c.GDALDatasetRasterIOEx(h, 0, int32(w.Col), int32(w.Row+y), int32(w.Width), int32(rows), at,
				int32(w.Width), int32(rows), typ,
				int32(len(list)), &list[0], int64(size), int64(dst.Strides[1]), int64(dst.Strides[0]), nil) == 0
		})
	})
}

// slabs calls read for parts of w of full width, about bytesAtOnce each, that end at block
// boundaries, and checks the context in between.
func (f *File) slabs(ctx context.Context, w raster.Window, pixelBytes, block int, read func(y, rows int) error) error {
	step := max(1, bytesAtOnce/(w.Width*pixelBytes)/block) * block
	for y := 0; y < w.Height; {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(w.Height, ((w.Row+y)/block)*block+step-w.Row)
		if err := read(y, end-y); err != nil {
			return err
		}
		y = end
	}
	return nil
}

// readBackwards fills an array whose bands or rows are in descending order, which GDAL can't do.
func (f *File) readBackwards(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	straight := ndarray.New(dst.Type, len(bands), w.Height, w.Width)
	if err := f.Read(ctx, bands, w, straight); err != nil {
		return err
	}
	row := w.Width * dst.Type.Size()
	for b := range bands {
		for y := range w.Height {
			copy(dst.Data[dst.Offset+b*dst.Strides[0]+y*dst.Strides[1]:][:row], straight.Data[(b*w.Height+y)*row:])
		}
	}
	return nil
}

// checkRead returns an error for arguments outside the contract of Read, and for arrays that exceed
// their memory, into which GDAL would write.
func checkRead(info *raster.Info, bands []int, w raster.Window, dst *ndarray.Array) error {
	if err := driver.CheckRead(info, bands, w, dst); err != nil {
		return err
	}
	return checkInside(info.Path, dst)
}

// checkInside returns an error unless all elements of a are inside its memory.
func checkInside(name string, a *ndarray.Array) error {
	if a.Len() == 0 {
		return nil
	}
	first, last := a.Offset, a.Offset+a.Shape[2]*a.Type.Size()
	for d := range 2 {
		if reach := (a.Shape[d] - 1) * a.Strides[d]; reach < 0 {
			first += reach
		} else {
			last += reach
		}
	}
	if first < 0 || last > len(a.Data) {
		return fmt.Errorf("%s: the array reaches from byte %d to %d of its memory, which has %d", name, first, last,
			len(a.Data))
	}
	return nil
}

// ReadMask implements raster.Masker.
func (f *File) ReadMask(ctx context.Context, w raster.Window, dst []byte) error {
	if err := driver.CheckMask(&f.info, w, dst); err != nil || w.Empty() {
		return errors.Join(err, ctx.Err())
	}
	h, err := f.acquire(ctx)
	if err != nil {
		return err
	}
	defer f.release(h)
	var other []byte
	for n, band := range f.masks {
		to := dst
		if n > 0 {
			if other == nil {
				other = make([]byte, len(dst))
			}
			to = other
		}
		if err := f.readMask(ctx, h, band, w, to); err != nil {
			return err
		}
		for i, v := range to {
			if v == 0 || n > 0 && dst[i] == 0 {
				dst[i] = 0
			} else {
				dst[i] = 255
			}
		}
	}
	return nil
}

func (f *File) readMask(ctx context.Context, h hDataset, band int32, w raster.Window, dst []byte) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&dst[0])
	return f.slabs(ctx, w, 1, max(1, f.info.MaskTile.Height), func(y, rows int) error {
		return try(f.info.Path, "read", func() bool {
			mask := c.GDALGetMaskBand(c.GDALGetRasterBand(h, band))
			return mask != 0 && c.GDALRasterIOEx(mask, 0, int32(w.Col), int32(w.Row+y), int32(w.Width), int32(rows),
				unsafe.Pointer(&dst[y*w.Width]), int32(w.Width), int32(rows),
				gdtByte, 1, int64(w.Width), nil) == 0
		})
	})
}
