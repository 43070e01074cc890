package apply

import (
	"errors"
	"fmt"
	"io"
	"os"

	"leat/raster"
	"leat/raster/geotiff"
	"leat/raster/npy"
)

// Open opens a raster by its content: GeoTIFF or .npy.
func Open(path string) (raster.Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, openError(path, err)
	}
	var head [6]byte
	n, err := io.ReadFull(f, head[:])
	f.Close()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, openError(path, err)
	}
	if string(head[:n]) == "\x93NUMPY" {
		return npy.Open(path)
	}
	return geotiff.Open(path)
}

// openError words the usual mistakes for people.
func openError(path string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if st, e := os.Stat(path); e == nil && st.IsDir() {
		return fmt.Errorf("%s is a directory, not a raster", path)
	}
	return fmt.Errorf("%s: %w", path, err)
}
