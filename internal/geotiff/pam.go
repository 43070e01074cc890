package geotiff

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"leat/internal/georef"
	"leat/raster"
)

// pamFile holds the parts of GDAL's .aux.xml (PAM) that describe grid, bands and metadata.
type pamFile struct {
	XMLName      xml.Name
	GeoTransform string     `xml:"GeoTransform"`
	SRS          string     `xml:"SRS"`
	Metadata     []pamItems `xml:"Metadata"`
	Points       pamPoints  `xml:"GCPList"`
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
		Categories []string   `xml:"CategoryNames>Category"`
		Metadata   []pamItems `xml:"Metadata"`
	} `xml:"PAMRasterBand"`
}

type pamPoints struct {
	CRS    string `xml:"Projection,attr"`
	Points []struct {
		ID   string `xml:"Id,attr"`
		Info string `xml:"Info,attr"`
		Col  string `xml:"Pixel,attr"`
		Row  string `xml:"Line,attr"`
		X    string `xml:"X,attr"`
		Y    string `xml:"Y,attr"`
		Z    string `xml:"Z,attr"`
	} `xml:"GCP"`
}

type pamItems struct {
	Domain string `xml:"domain,attr"`
	Format string `xml:"format,attr"`
	Items  []struct {
		Key   string `xml:"key,attr"`
		Value string `xml:",chardata"`
	} `xml:"MDI"`
	Geodata []struct{} `xml:"GeodataXform"`
}

// hasGeodataXform reports whether the file has georeferencing of ESRI's programs where GDAL reads
// it: as the whole file (ArcGIS 9), or in a metadata domain of its own (ArcGIS 10).
func (p *pamFile) hasGeodataXform() bool {
	return p.XMLName.Local == "GeodataXform" || slices.ContainsFunc(p.Metadata, func(m pamItems) bool {
		return m.Domain == "xml:ESRI" && len(m.Geodata) > 0
	})
}

// addPAM applies the sidecar .aux.xml, whose contents take precedence over the file as in GDAL. It
// is not an error if there is none.
func (f *File) addPAM(sidecars SidecarOpener) error {
	text, path, err := sidecarText(sidecars, ".aux.xml", false, maxTextBytes)
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
	if doc.hasGeodataXform() {
		f.notes = append(f.notes, "the georeferencing by GeodataXform in "+path+
			" is not read: GDAL reads it (gdal_translate)")
	}
	if v := strings.Split(doc.GeoTransform, ","); len(v) == 6 {
		var t raster.Transform
		for i, s := range v {
			if t[i], err = strconv.ParseFloat(strings.TrimSpace(s), 64); err != nil {
				return fmt.Errorf("%s: %q is not a transform: remove the file or write it again (%w)", path,
					doc.GeoTransform, raster.ErrFormat)
			}
		}
		info.Grid.Transform, info.Grid.HasTransform = t, true
	}
	if err := f.addPAMPoints(&doc, path); err != nil {
		return err
	}
	for _, m := range doc.Metadata {
		if m.Format == "" && m.Domain != domainRPC {
			for _, it := range m.Items {
				setItem(info, m.Domain, it.Key, it.Value)
			}
		}
	}
	f.addPAMCoefficients(&doc, path)
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
				b.Colors = append(b.Colors,
					raster.RGBA{R: toByte(e.C1), G: toByte(e.C2), B: toByte(e.C3), A: toByte(e.C4)})
			}
		}
		if len(p.Categories) > 0 {
			b.Categories = p.Categories
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

// addPAMPoints applies the CRS and the ground control points. As in GDAL, the points take
// precedence over the file's transform, and the CRS also applies to the file's own points.
func (f *File) addPAMPoints(doc *pamFile, path string) error {
	g := &f.info.Grid
	var crs raster.CRS
	if wkt := strings.TrimSpace(doc.SRS); wkt != "" {
		crs = crsOfWKT(wkt)
	}
	points, err := doc.Points.gcps()
	if err != nil {
		return fmt.Errorf("%s: %w: remove the file or write it again (%w)", path, err, raster.ErrFormat)
	}
	if points != nil && !georef.FiniteGCPs(points) {
		f.notes = append(f.notes, "the ground control points in "+path+" are not read: they are not finite")
		points = nil
	}
	own := g.GCPs
	if points != nil {
		g.GCPs = points
		if doc.GeoTransform == "" || g.Transform == raster.Identity {
			g.Transform, g.HasTransform, g.CRS = raster.Identity, false, raster.CRS{}
			return nil
		}
	}
	switch {
	case !g.HasTransform && g.GCPs != nil:
		if !crs.IsZero() {
			g.GCPs = &raster.GCPs{Points: g.GCPs.Points, CRS: crs}
		}
	case !crs.IsZero():
		g.CRS = crs
	case own != nil && g.CRS.IsZero(): // the CRS of the file's points becomes that of the transform
		g.CRS = own.CRS
	}
	return nil
}

// gcps returns the points, nil for none.
func (l *pamPoints) gcps() (*raster.GCPs, error) {
	if len(l.Points) == 0 {
		return nil, nil
	}
	g := new(raster.GCPs)
	if wkt := strings.TrimSpace(l.CRS); wkt != "" {
		g.CRS = crsOfWKT(wkt)
	}
	for i, p := range l.Points {
		point := raster.GCP{ID: p.ID, Info: p.Info}
		for _, n := range []struct {
			text string
			to   *float64
		}{{p.Col, &point.Pixel}, {p.Row, &point.Line}, {p.X, &point.X}, {p.Y, &point.Y}, {p.Z, &point.Z}} {
			if n.text == "" { // 0, as in GDAL
				continue
			}
			v, ok := parseNumber(n.text)
			if !ok {
				return nil, fmt.Errorf("ground control point %d has %q: expected a number", i+1, n.text)
			}
			*n.to = v
		}
		g.Points = append(g.Points, point)
	}
	return g, nil
}

// addPAMCoefficients applies the RPCs, unless the file has its own.
func (f *File) addPAMCoefficients(doc *pamFile, path string) {
	items := map[string]string{}
	for _, m := range doc.Metadata {
		if m.Domain != domainRPC || m.Format != "" {
			continue
		}
		for _, it := range m.Items {
			items[it.Key] = it.Value
		}
	}
	if len(items) == 0 || f.info.Grid.RPC != nil {
		return
	}
	for k, v := range items {
		setItem(f.info, domainRPC, k, v)
	}
	rpc, err := georef.ParseRPC(items)
	if err != nil {
		f.notes = append(f.notes, fmt.Sprintf("the RPCs in %s are not read: %v", path, err))
	}
	f.info.Grid.RPC = rpc
}

func toByte(v int) uint8 { return uint8(min(max(v, 0), math.MaxUint8)) }
