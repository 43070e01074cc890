package gdal

import (
	"slices"
	"strings"
	"unsafe"
)

// turned reports whether a raster's system says that its coordinates come in another order than x, y, which only GDAL's driver of Zarr does, by mistake: its geotransform is as all
// are. s may be 0. It is called on one thread.
func turned(s hSRS) bool {
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

// straightText is the text of a system that is turned, which GDAL takes in the usual order; "" of others. It is called on one thread.
func straightText(s hSRS) string {
	if !turned(s) {
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
