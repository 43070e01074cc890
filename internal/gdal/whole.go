package gdal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"leat/internal/netcdf"
	"leat/raster"
)

// checkWhole returns an error for a file that is too short for its pixels, where GDAL reads zeros:
// of ENVI, of PCIDSK by pixels or bands, and of classic netCDF, also as a source of a VRT. Formats
// that GDAL checks need no check here. The header of a tiled PCIDSK file gives no size to rely on.
func (f *File) checkWhole() error {
	names := f.sources
	switch f.info.Driver {
	case "ENVI":
		return f.checkENVI()
	case "netCDF", "PCIDSK":
		names = []string{fileIn(f.info.Path, "")}
	}
	for _, name := range names {
		if err := checkSize(name); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) checkENVI() error {
	compression := f.info.Domains["ENVI"]["file_compression"]
	if f.plain == nil || !f.plain.Mode().IsRegular() || compression != "" && compression != "0" {
		return nil
	}
	expected := int64(0)
	for i := range f.info.Bands {
		expected += int64(f.info.Grid.Width) * int64(f.info.Grid.Height) * int64(f.info.Bands[i].Type.Size())
	}
	return compareSize(f.info.Path, f.plain.Size(), expected)
}

// checkSize returns an error for a plain file of netCDF or PCIDSK that is shorter than its header
// says. It leaves files that it can't read to GDAL.
func checkSize(name string) error {
	if !plainFile(name) {
		return nil
	}
	r, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer r.Close()
	st, err := r.Stat()
	if err != nil {
		return nil
	}
	head := make([]byte, 512)
	if _, err := io.ReadFull(r, head); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	switch {
	case strings.HasPrefix(string(head), "PCIDSK  "):
		return compareSize(name, st.Size(), sizePCIDSK(head))
	case strings.HasPrefix(string(head), "CDF"):
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return nil
		}
		if expected, err := netcdf.Size(r); err == nil {
			return compareSize(name, st.Size(), expected)
		}
	}
	return nil
}

// sizePCIDSK returns the size of a file in the first block of its header, or 0 if the pixels are
// tiled or in another file.
func sizePCIDSK(head []byte) int64 {
	const block = 512
	interleaving := strings.TrimSpace(string(head[360:368]))
	blocks, err := strconv.ParseInt(strings.TrimSpace(string(head[16:32])), 10, 54)
	if err != nil || interleaving != "PIXEL" && interleaving != "BAND" {
		return 0
	}
	return blocks * block
}

func compareSize(name string, size, expected int64) error {
	if size >= expected {
		return nil
	}
	return fmt.Errorf("%s: it was cut short: it has %d bytes, expected at least %d (%w)",
		name, size, expected, raster.ErrFormat)
}
