package gdal

import (
	"errors"
	"runtime"
	"unsafe"

	"leat/raster"
)

// SameCRS reports whether two systems are the same, whatever their files call them: by what they say where that is plain, else as GDAL understands them, the
// order of axes aside. Without GDAL it is a.Equal(b).
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
		is = c.OSRIsSameEx(x, y, cStrings(same)) != 0
	})
	return is
}

// referenceText is a system as text that GDAL understands.
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
		return "", errors.New("GDAL can't write down the coordinate reference system " + r.String())
	}
	defer c.VSIFree(text)
	return goString(text), nil
}
