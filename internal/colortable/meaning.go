package colortable

import (
	"slices"
	"strings"

	"leat/raster"
)

// meanings are the names of GDAL 3.6 for the meanings of bands, in the order of its numbers.
var meanings = [...]raster.Color{raster.ColorUndefined, raster.ColorGray, raster.ColorPalette, raster.ColorRed,
	raster.ColorGreen, raster.ColorBlue, raster.ColorAlpha, "hue", "saturation", "lightness", "cyan", "magenta", "yellow",
	"black", "ycbcr_y", "ycbcr_cb", "ycbcr_cr"}

// Meanings returns all meanings of bands, which are the names of GDAL 3.6 in lower case, in the
// order of its numbers.
func Meanings() []raster.Color { return slices.Clone(meanings[:]) }

// ParseMeaning returns the meaning with this name in any case, and false for an unknown name.
func ParseMeaning(name string) (raster.Color, bool) {
	c := raster.Color(strings.ToLower(name))
	return c, slices.Contains(meanings[:], c)
}
