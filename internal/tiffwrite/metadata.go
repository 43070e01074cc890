package tiffwrite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"leat/internal/tiff"
	"leat/ndarray"
	"leat/raster"
)

// nodataText returns the text of a nodata value that readers, GDAL in particular, parse as the same
// value: floats with all the digits of a double, integers exactly.
func nodataText(s ndarray.Scalar) string {
	if s.Type.IsFloat() {
		return doubleText(s.Float64())
	}
	return s.String()
}

// doubleText returns the shortest text that parses as the same double: "nan",
// "-3.4028234663852886e+38".
func doubleText(v float64) string { return ndarray.ScalarOf(v).String() }

// metadataXML returns the value of GDAL's metadata tag, "" if there are no items. The order of the
// items is fixed.
func (s *FileSpec) metadataXML() string {
	var x itemWriter
	x.items(s.Metadata, "")
	for _, domain := range slices.Sorted(maps.Keys(s.Domains)) {
		if domain == "" || domain == "IMAGE_STRUCTURE" { // the latter is what readers make of the tags
			continue
		}
		x.items(s.Domains[domain], ` domain="`+escapeXML(domain)+`"`)
	}
	_, extra := s.colors()
	for i := range s.Bands {
		b := s.band(i)
		sample := fmt.Sprintf(` sample="%d"`, i)
		role := func(name, value, role string) { x.item(name, value, sample+` role="`+role+`"`) }
		if (b.Scale != 0 && b.Scale != 1) || b.Offset != 0 {
			scale := b.Scale
			if scale == 0 {
				scale = 1
			}
			role("OFFSET", doubleText(b.Offset), "offset")
			role("SCALE", doubleText(scale), "scale")
		}
		if b.Unit != "" {
			role("UNITTYPE", b.Unit, "unittype")
		}
		if b.Name != "" {
			role("DESCRIPTION", b.Name, "description")
		}
		x.items(b.Metadata, sample)
		if c := b.Color; c != "" && c != s.tagColor(i, len(extra)) {
			role("COLORINTERP", colorName(c), "colorinterp")
		}
	}
	if x.b.Len() == 0 {
		return ""
	}
	return "<GDALMetadata>\n" + x.b.String() + "</GDALMetadata>\n"
}

// colorName returns GDAL's name of a colour interpretation: "Red", "YCbCr_Cb".
func colorName(c raster.Color) string {
	if part, ok := strings.CutPrefix(string(c), "ycbcr_"); ok {
		return "YCbCr_" + strings.ToUpper(part[:1]) + part[1:]
	}
	return strings.ToUpper(string(c[:1])) + string(c[1:])
}

// tagColor returns the colour that readers derive from the other tags for band i.
func (s *FileSpec) tagColor(i, extra int) raster.Color {
	photometric, _ := s.colors()
	switch {
	case i >= s.Bands-extra:
		if s.band(i).Color == raster.ColorAlpha {
			return raster.ColorAlpha
		}
		return raster.ColorUndefined
	case photometric == tiff.PhotometricPalette:
		return raster.ColorPalette
	case photometric == tiff.PhotometricRGB:
		return [3]raster.Color{raster.ColorRed, raster.ColorGreen, raster.ColorBlue}[i]
	}
	return raster.ColorGray
}

type itemWriter struct{ b strings.Builder }

func (x *itemWriter) items(m map[string]string, attributes string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		x.item(name, m[name], attributes)
	}
}

// item writes one item. GDAL escapes values twice, and readers undo both.
func (x *itemWriter) item(name, value, attributes string) {
	x.b.WriteString(`  <Item name="` + escapeXML(name) + `"` + attributes + ">" + escapeXML(escapeXML(value)) +
		"</Item>\n")
}

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// escapeXML escapes text for an element or an attribute. Control characters and invalid UTF-8,
// which XML can't represent, become U+FFFD.
func escapeXML(s string) string {
	s = strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\t' && r != '\n' && r != '\r') || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return xmlEscapes.Replace(s)
}
