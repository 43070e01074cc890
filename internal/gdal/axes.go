package gdal

import (
	"slices"
	"strings"
	"unsafe"
)

// axesSwapped reports whether a CRS claims that the raster's coordinates are in another order than
// x, y. Only GDAL's Zarr driver does so, by mistake: its geotransform is in the usual order. s may
// be 0. It must run within onThread or try.
func axesSwapped(s hSRS) bool {
	if s == 0 {
		return false
	}
	straight := c.OSRClone(s)
	defer c.OSRDestroySpatialReference(straight)
	c.OSRSetAxisMappingStrategy(straight, 0)
	return !slices.Equal(axesOf(s), axesOf(straight))
}

func axesOf(s hSRS) []int32 {
	var n int32
	list := c.OSRGetDataAxisToSRSAxisMapping(s, &n)
	if list == nil || n <= 0 {
		return nil
	}
	return slices.Clone(unsafe.Slice((*int32)(list), n))
}

// normalizedText returns the text of a CRS whose axes are swapped, in the usual order, and "" for
// others. It must run within onThread or try.
func normalizedText(s hSRS) string {
	if !axesSwapped(s) {
		return ""
	}
	var text unsafe.Pointer
	failed := c.OSRExportToWktEx(s, &text, cStrings([]string{"FORMAT=WKT2_2019"})) != 0
	defer c.VSIFree(text)
	if failed {
		return ""
	}
	return strings.TrimSpace(goString(text))
}
