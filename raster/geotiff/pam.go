package geotiff

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"leat/raster"
)

// The parts of GDAL's .aux.xml (PAM) that say something about grid, bands and metadata.
type pamFile struct {
	GeoTransform string     `xml:"GeoTransform"`
	SRS          string     `xml:"SRS"`
	Metadata     []pamItems `xml:"Metadata"`
	Bands        []struct {
		Number      int     `xml:"band,attr"`
		Description string  `xml:"Description"`
		NoData      *string `xml:"NoDataValue"`
		Unit        string  `xml:"UnitType"`
		Offset      string  `xml:"Offset"`
		Scale       string  `xml:"Scale"`
		Color       string  `xml:"ColorInterp"`
		Table       []struct {
			C1 int `xml:"c1,attr"`
			C2 int `xml:"c2,attr"`
			C3 int `xml:"c3,attr"`
			C4 int `xml:"c4,attr"`
		} `xml:"ColorTable>Entry"`
		Metadata []pamItems `xml:"Metadata"`
	} `xml:"PAMRasterBand"`
}

type pamItems struct {
	Domain string `xml:"domain,attr"`
	Format string `xml:"format,attr"`
	Items  []struct {
		Key   string `xml:"key,attr"`
		Value string `xml:",chardata"`
	} `xml:"MDI"`
}

// addPAM lays what the .aux.xml beside the file says over what the file says, as GDAL does. No such file is no error.
func (f *File) addPAM(beside Beside) error {
	text, path, err := textBeside(beside, ".aux.xml", false, maxTextBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var doc pamFile
	if err := decodeXML(text, &doc); err != nil {
		return fmt.Errorf("%s: %v: remove the file or write it again (%w)", path, err, raster.ErrFormat)
	}
	info := f.info
	if v := strings.Split(doc.GeoTransform, ","); len(v) == 6 {
		var t raster.Transform
		for i, s := range v {
			if t[i], err = strconv.ParseFloat(strings.TrimSpace(s), 64); err != nil {
				return fmt.Errorf("%s: %q is no transform: remove the file or write it again (%w)", path, doc.GeoTransform, raster.ErrFormat)
			}
		}
		info.Grid.Transform, info.Grid.HasTransform = t, true
	}
	if wkt := strings.TrimSpace(doc.SRS); wkt != "" {
		info.Grid.CRS = crsOfWKT(wkt)
	}
	for _, m := range doc.Metadata {
		if m.Format == "" {
			for _, it := range m.Items {
				setItem(info, m.Domain, it.Key, it.Value)
			}
		}
	}
	for _, p := range doc.Bands {
		if p.Number < 1 || p.Number > len(info.Bands) {
			continue
		}
		b := &info.Bands[p.Number-1]
		if p.Description != "" {
			b.Name = p.Description
		}
		if p.NoData != nil {
			setNodata(b, strings.TrimSpace(*p.NoData))
		}
		if p.Unit != "" {
			b.Unit = p.Unit
		}
		setNumber(&b.Offset, p.Offset)
		setNumber(&b.Scale, p.Scale)
		if p.Color != "" {
			b.Color = colorOf(p.Color)
		}
		if len(p.Table) > 0 {
			b.Colors = nil
			for _, e := range p.Table {
				b.Colors = append(b.Colors, raster.RGBA{R: toByte(e.C1), G: toByte(e.C2), B: toByte(e.C3), A: toByte(e.C4)})
			}
		}
		for _, m := range p.Metadata {
			if m.Format != "" || m.Domain != "" {
				continue
			}
			for _, it := range m.Items {
				setBandItem(b, it.Key, it.Value)
			}
		}
	}
	return nil
}

func toByte(v int) uint8 { return uint8(min(max(v, 0), math.MaxUint8)) }

// crsOfWKT describes a system by its WKT: the name is the first text, the code that of the outermost
// AUTHORITY, which stands last.
func crsOfWKT(wkt string) raster.CRS {
	c := raster.CRS{WKT: wkt}
	if _, rest, ok := strings.Cut(wkt, `["`); ok {
		c.Name, _, _ = strings.Cut(rest, `"`)
	}
	tail := strings.ReplaceAll(wkt, " ", "")
	if i := strings.LastIndex(tail, `AUTHORITY["EPSG","`); i >= 0 && strings.HasSuffix(tail, `"]]`) {
		if code, end, _ := strings.Cut(tail[i+len(`AUTHORITY["EPSG","`):], `"`); end == "]]" {
			c.Code = "EPSG:" + code
		}
	}
	return c
}
