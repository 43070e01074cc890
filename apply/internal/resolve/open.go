package resolve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/geotiff"
	"leat/internal/npy"
	"leat/internal/regular"
	"leat/raster"
)

// OpenRaster opens a raster by its content: GeoTIFF and .npy by leat's own drivers; other formats,
// and TIFFs with codings that these do not read, by GDAL if it is installed. A path that is not a
// file may be a name that GDAL understands, such as NETCDF:"file.nc":var or /vsizip/a.zip/b.img.
func OpenRaster(path string) (raster.Source, error) {
	src, ours, err := openNative(path)
	if err == nil {
		r, ok := src.(raster.Decodable)
		if !ok || !errors.Is(r.CheckReadable(), raster.ErrUnsupported) {
			return src, nil
		}
		// Without GDAL at least the file's metadata are available.
		if g, gerr := gdal.Open(path, nil); gerr == nil {
			return g, src.Close()
		}
		return src, nil
	}
	if ours && !errors.Is(err, raster.ErrUnsupported) || !ours && !errors.Is(err, raster.ErrFormat) && !errors.Is(err,
		errDirectory) && !IsGDALName(path) {
		return nil, err
	}
	g, gerr := gdal.Open(path, nil)
	switch {
	case gerr == nil:
		return g, nil
	case ours, errors.Is(err, errDirectory) && !errors.As(gerr, new(*gdal.SubdatasetsError)):
		return nil, err // this error says more, or the directory is not a raster
	case errors.Is(gerr, gdal.ErrNotInstalled):
		return nil, fmt.Errorf("%w; other formats need GDAL: %w", err, gdal.Available())
	case strings.Contains(gerr.Error(), "not recognized as"): // else the file is damaged and of a format that GDAL knows
		if gdal.HoldsVectors(path) {
			return nil, fmt.Errorf("%s: %w: %w", path, outcome.ErrVectors, raster.ErrFormat)
		}
		return nil, fmt.Errorf("%w; GDAL does not know it either", err)
	}
	return nil, gerr
}

// IsGDALName reports whether a path is not a file but may be one of GDAL's names.
func IsGDALName(path string) bool {
	if !strings.HasPrefix(path, "/vsi") && !strings.Contains(path, ":") {
		return false
	}
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// openNative opens a format that leat reads itself. ours reports whether the file is of such a
// format, or empty.
func openNative(path string) (src raster.Source, ours bool, err error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, false, openError(path, err)
	}
	var head [6]byte
	n, err := io.ReadFull(f, head[:])
	f.Close()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, false, openError(path, err)
	}
	if string(head[:n]) == "\x93NUMPY" {
		src, err = npy.Open(path)
		return src, true, err
	}
	switch string(head[:min(n, 4)]) {
	case "", "II*\x00", "MM\x00*", "II+\x00", "MM\x00+":
		ours = true
	}
	src, err = geotiff.Open(path)
	return src, ours, err
}

var errDirectory = errors.New("a directory")

// openError words common errors for users.
func openError(path string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, regular.ErrDirectory) {
		return directoryError{path}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// directoryError is returned for a directory, which some of GDAL's formats are.
type directoryError struct{ path string }

func (e directoryError) Error() string        { return e.path + " is a directory, not a raster" }
func (e directoryError) Is(target error) bool { return target == errDirectory }
