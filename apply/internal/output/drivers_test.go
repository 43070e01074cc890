package output

import (
	"path/filepath"
	"testing"

	"leat/internal/gdal"
)

// Endings that may belong to the format, or to no format, are accepted.
func TestFormatEndingAccepted(t *testing.T) {
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ path, format string }{{"o", "HFA"}, {"o.", "HFA"}, {".png", "PNG"}, {"o.IMG", "HFA"},
		{"o.dat", "HFA"}, {"o.2", "PNG"}, {"o.img", "ENVI"}, {"o.bil", "ENVI"}, {"o.envi", "ENVI"},
		{"o.flt", "EHdr"}, {"o.bil", "EHdr"}, {"o.grd", "GSAG"}, {"o.grd", "AAIGrid"}, {"o.hdr", "AAIGrid"},
		{"o.nc4", "netCDF"}, {"o.grib", "GRIB"}, {"o.grb2", "GRIB"}, {"o.zarr", "Zarr"}, {"o.img", "LAN"},
		{"o.tiff", "COG"},
		{"o.jpe", "JPEG"}, {"o.PPM", "PNM"}} {
		d, err := writableFormat(c.format)
		if err != nil {
			t.Log(err) // this GDAL lacks it
			continue
		}
		if other := otherEnding(&d, filepath.Join("a.png", c.path)); other != "" {
			t.Errorf("%s of %s is taken for %s", c.path, c.format, other)
		}
	}
}
