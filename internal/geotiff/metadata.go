package geotiff

import (
	"encoding/xml"
	"io"
	"math"
	"strconv"
	"strings"

	"leat/internal/colortable"
	"leat/internal/tiff"
	"leat/raster"
)

// gdalItem is one Item of the GDAL_METADATA tag.
type gdalItem struct {
	Name   string `xml:"name,attr"`
	Sample string `xml:"sample,attr"`
	Role   string `xml:"role,attr"`
	Domain string `xml:"domain,attr"`
	Value  string `xml:",chardata"`
}

// gdalItems parses the GDAL_METADATA tag. Like GDAL it ignores text that is not XML.
func gdalItems(d *directory) ([]gdalItem, error) {
	text, err := d.text(tiff.TagGDALMetadata)
	if err != nil || text == "" {
		return nil, err
	}
	var doc struct {
		Items []gdalItem `xml:"Item"`
	}
	if decodeXML(text, &doc) != nil {
		return nil, nil
	}
	for i := range doc.Items {
		// GDAL escapes values once more before it escapes them as XML.
		doc.Items[i].Value = unescape.Replace(doc.Items[i].Value)
	}
	return doc.Items, nil
}

// decodeXML is as lenient as GDAL's parser: it replaces invalid UTF-8 and ignores the declared
// encoding.
func decodeXML(text string, doc any) error {
	d := xml.NewDecoder(strings.NewReader(strings.ToValidUTF8(text, "\uFFFD")))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	return d.Decode(doc)
}

var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "&quot;", `"`, "&apos;", "'")

// applyItems stores the items in info: those of a band by role, those of the file by domain.
func applyItems(info *raster.Info, items []gdalItem) {
	for _, it := range items {
		if it.Sample == "" {
			setItem(info, it.Domain, it.Name, it.Value)
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(it.Sample))
		if err != nil || n < 0 || n >= len(info.Bands) {
			continue
		}
		b := &info.Bands[n]
		switch strings.ToLower(it.Role) {
		case "description":
			b.Name = it.Value
		case "scale":
			setNumber(&b.Scale, it.Value)
		case "offset":
			setNumber(&b.Offset, it.Value)
		case "unittype":
			b.Unit = it.Value
		case "colorinterp":
			b.Color = colorOf(it.Value)
		default:
			if it.Domain == "" {
				setBandItem(b, it.Name, it.Value)
			}
		}
	}
}

func setItem(info *raster.Info, domain, name, value string) {
	if domain == "" {
		if info.Metadata == nil {
			info.Metadata = map[string]string{}
		}
		info.Metadata[name] = value
		return
	}
	if info.Domains == nil {
		info.Domains = map[string]map[string]string{}
	}
	if info.Domains[domain] == nil {
		info.Domains[domain] = map[string]string{}
	}
	info.Domains[domain][name] = value
}

func setBandItem(b *raster.Band, name, value string) {
	if b.Metadata == nil {
		b.Metadata = map[string]string{}
	}
	b.Metadata[name] = value
}

func setNumber(dst *float64, text string) {
	if v, ok := parseNumber(text); ok {
		*dst = v
	}
}

// parseNumber parses a number as written by C's atof and by GDAL.
func parseNumber(text string) (float64, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if strings.Contains(text, "nan") || strings.Contains(text, "#ind") || strings.Contains(text, "#qnan") {
		return math.NaN(), true
	}
	if strings.Contains(text, "#inf") {
		if strings.HasPrefix(text, "-") {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil || math.IsInf(v, 0)
}

// colorOf returns the Color for GDAL's name of a colour interpretation.
func colorOf(s string) raster.Color {
	if c, ok := colortable.ParseMeaning(s); ok {
		return c
	}
	return raster.ColorUndefined
}

// textTags are the plain tags that GDAL shows as metadata.
var textTags = []struct {
	tag  uint16
	name string
}{
	{269, "TIFFTAG_DOCUMENTNAME"}, {270, "TIFFTAG_IMAGEDESCRIPTION"}, {305, "TIFFTAG_SOFTWARE"},
	{306, "TIFFTAG_DATETIME"}, {315, "TIFFTAG_ARTIST"}, {316, "TIFFTAG_HOSTCOMPUTER"}, {33432, "TIFFTAG_COPYRIGHT"},
}

// applyTextTags adds the plain tags of d to the metadata of info.
func applyTextTags(info *raster.Info, d *directory) error {
	for _, t := range textTags {
		s, err := d.text(t.tag)
		if err != nil {
			return err
		}
		if s != "" {
			setItem(info, "", t.name, s)
		}
	}
	return nil
}
