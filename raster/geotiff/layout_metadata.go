package geotiff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"leat/ndarray"
	"leat/raster"
)

// nodataText writes a nodata value so that readers, GDAL first, find the same one: floats with all the
// digits of a double, integers exactly.
func nodataText(s ndarray.Scalar) string {
	if s.Type.IsFloat() {
		return doubleText(s.Float64())
	}
	return s.String()
}

// doubleText is the shortest text that reads back as the same double: "nan", "-3.4028234663852886e+38".
func doubleText(v float64) string { return ndarray.ScalarOf(v).String() }

// metadataXML returns the value of GDAL's metadata tag, empty when there is nothing in it. Items are
// in a fixed order.
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
			role("COLORINTERP", strings.ToUpper(string(c[:1]))+string(c[1:]), "colorinterp")
		}
	}
	if x.b.Len() == 0 {
		return ""
	}
	return "<GDALMetadata>\n" + x.b.String() + "</GDALMetadata>\n"
}

// tagColor is the colour that readers take from the other tags for band i.
func (s *FileSpec) tagColor(i, extra int) raster.Color {
	photometric, _ := s.colors()
	switch {
	case i >= s.Bands-extra:
		if s.band(i).Color == raster.ColorAlpha {
			return raster.ColorAlpha
		}
		return raster.ColorUndefined
	case photometric == photometricPalette:
		return raster.ColorPalette
	case photometric == photometricRGB:
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

// item writes one item. GDAL escapes values twice and takes both away again when it reads.
func (x *itemWriter) item(name, value, attributes string) {
	x.b.WriteString(`  <Item name="` + escapeXML(name) + `"` + attributes + ">" + escapeXML(escapeXML(value)) + "</Item>\n")
}

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// escapeXML escapes text for an element or an attribute. What XML can't hold, control characters and
// broken UTF-8, becomes U+FFFD.
func escapeXML(s string) string {
	s = strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\t' && r != '\n' && r != '\r') || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return xmlEscapes.Replace(s)
}
