// Package driver has what the drivers of rasters and their callers share: it opens files, checks
// the arguments of raster.Source, sorts ranges and divides rasters into windows.
package driver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"leat/internal/regular"
	"leat/ndarray"
	"leat/raster"
)

// Open opens a regular file for reading and returns its size. The error names the path once. It
// wraps raster.ErrFormat for directories and special files.
func Open(path string) (*os.File, int64, error) {
	f, info, err := regular.Open(path)
	if err == nil {
		return f, info.Size(), nil
	}
	cause := err
	if pe := new(fs.PathError); errors.As(err, &pe) {
		cause = pe.Err
	}
	if errors.Is(err, regular.ErrDirectory) || errors.Is(err, regular.ErrSpecial) {
		cause = fmt.Errorf("%w (%w)", cause, raster.ErrFormat)
	}
	return nil, 0, fmt.Errorf("%s: %w", path, cause)
}

// Close closes r if it is an io.Closer.
func Close(r io.ReaderAt) error {
	if c, ok := r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// CheckRead returns an error for arguments outside the contract of raster.Source's Read.
func CheckRead(info *raster.Info, bands []int, w raster.Window, dst *ndarray.Array) error {
	switch {
	case dst == nil:
		return fmt.Errorf("%s: destination array is nil", info.Path)
	case len(dst.Shape) != 3 || len(dst.Strides) != 3 || dst.Shape[0] != len(bands) || dst.Shape[1] != w.Height ||
		dst.Shape[2] != w.Width:
		return fmt.Errorf("%s: destination array has shape %v, expected (%d, %d, %d)", info.Path, dst.Shape, len(bands),
			w.Height, w.Width)
	case w.Width > 1 && dst.Strides[2] != dst.Type.Size():
		return fmt.Errorf("%s: rows of the destination array are not contiguous", info.Path)
	}
	if err := CheckRanges(info, bands, w); err != nil {
		return err
	}
	for _, b := range bands {
		if typ := info.Bands[b-1].Type; dst.Type != typ {
			return fmt.Errorf("%s: pixels of band %d are %v, destination array is %v", info.Path, b, typ, dst.Type)
		}
	}
	return nil
}

// CheckRanges returns an error for bands that the raster lacks and for a window that is not inside.
func CheckRanges(info *raster.Info, bands []int, w raster.Window) error {
	if !info.Grid.Window().Contains(w) {
		return fmt.Errorf("%s: window %v is not inside the raster of %d x %d pixels", info.Path, w, info.Grid.Width,
			info.Grid.Height)
	}
	for _, b := range bands {
		if b < 1 || b > len(info.Bands) {
			return fmt.Errorf("%s: band %d out of range (has %d)", info.Path, b, len(info.Bands))
		}
	}
	return nil
}

// CheckMask returns an error for arguments outside the contract of raster.Masker's ReadMask.
func CheckMask(info *raster.Info, w raster.Window, dst []byte) error {
	if info.Mask != raster.MaskDataset {
		return fmt.Errorf("%s: no mask", info.Path)
	}
	if err := CheckRanges(info, nil, w); err != nil {
		return err
	}
	if len(dst) != w.Width*w.Height {
		return fmt.Errorf("%s: %d bytes for a mask of %d x %d pixels", info.Path, len(dst), w.Width, w.Height)
	}
	return nil
}
