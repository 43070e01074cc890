package gdal

import (
	"errors"
	"runtime"
	"unsafe"

	"leat/raster"
)

// SameCRS reports whether two CRSs are the same under any names: by their codes or keys if that is
// decisive, else as GDAL compares them, ignoring the order of axes. Without GDAL it is a.Equal(b).
func SameCRS(a, b raster.CRS) bool {
	if a.Equal(b) || a.IsZero() || b.IsZero() {
		return a.Equal(b)
	}
	if load() != nil {
		return false
	}
	is := false
	onThread(func() {
		x, err := srsOf(a)
		if err != nil {
			return
		}
		defer c.OSRDestroySpatialReference(x)
		y, err := srsOf(b)
		if err != nil {
			return
		}
		defer c.OSRDestroySpatialReference(y)
		is = c.OSRIsSameEx(x, y, cStrings(compareOptions)) != 0
	})
	return is
}

// WKT returns the text of a CRS, "" for none.
func WKT(r raster.CRS) (string, error) {
	if r.IsZero() {
		return "", nil
	}
	if r.WKT != "" {
		return r.WKT, nil
	}
	if err := load(); err != nil {
		return "", err
	}
	return referenceText(r)
}

// referenceText returns a CRS as text that GDAL parses.
func referenceText(r raster.CRS) (string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := srsOf(r)
	if err != nil || s == 0 {
		return "", err
	}
	defer c.OSRDestroySpatialReference(s)
	var text unsafe.Pointer
	if c.OSRExportToWktEx(s, &text, cStrings([]string{"FORMAT=WKT2_2019"})) != 0 || text == nil {
		return "", errors.New("GDAL can't express the coordinate reference system " + r.String())
	}
	defer c.VSIFree(text)
	return goString(text), nil
}
