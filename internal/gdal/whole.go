package gdal

import (
	"fmt"
	"os"

	"leat/internal/netcdf"
	"leat/raster"
)

// checkWhole returns an error for a file that is too short for its pixels, where GDAL reads zeros:
// of ENVI and of classic netCDF, also as a source of a VRT. Formats that GDAL checks need no check
// here. PCIDSK's header has a size, but whole files are shorter if their last pixels are 0.
func (f *File) checkWhole() error {
	names := f.sources
	switch f.info.Driver {
	case "ENVI":
		return f.checkENVI()
	case "netCDF":
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

// checkSize returns an error for a plain file of classic netCDF that is shorter than its header
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
	expected, err := netcdf.Size(r)
	if err != nil {
		return nil
	}
	return compareSize(name, st.Size(), expected)
}

func compareSize(name string, size, expected int64) error {
	if size >= expected {
		return nil
	}
	return fmt.Errorf("%s: it was cut short: it has %d bytes, expected at least %d (%w)",
		name, size, expected, raster.ErrFormat)
}
