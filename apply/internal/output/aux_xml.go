package output

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"leat/apply/outcome"
	"leat/internal/tempfile"
	"leat/raster"
)

// pamDataset is the part of GDAL's .aux.xml that holds the CRS, colours, names of values and
// histograms.
type pamDataset struct {
	XMLName xml.Name   `xml:"PAMDataset"`
	SRS     string     `xml:"SRS,omitempty"` // the axes are x, y whatever the CRS defines
	Points  *pamPoints `xml:"GCPList"`
	Bands   []pamBand  `xml:"PAMRasterBand"`
}

type pamPoints struct {
	CRS    string     `xml:"Projection,attr"`
	Points []pamPoint `xml:"GCP"`
}

type pamPoint struct {
	ID    string  `xml:"Id,attr"`
	Info  string  `xml:"Info,attr,omitempty"`
	Pixel float64 `xml:"Pixel,attr"`
	Line  float64 `xml:"Line,attr"`
	X     float64 `xml:"X,attr"`
	Y     float64 `xml:"Y,attr"`
	Z     float64 `xml:"Z,attr"`
}

// newPAMPoints returns the points as .aux.xml has them.
func newPAMPoints(g *raster.GCPs, wkt string) *pamPoints {
	l := &pamPoints{CRS: wkt}
	for _, p := range g.Points {
		l.Points = append(l.Points, pamPoint(p))
	}
	return l
}

type pamBand struct {
	Band       int        `xml:"band,attr"`
	Color      string     `xml:"ColorInterp,omitempty"`
	Colors     *pamColors `xml:"ColorTable"`
	Categories *pamNames  `xml:"CategoryNames"`
	Item       *pamItem   `xml:"Histograms>HistItem"`
}

type pamColors struct {
	Entries []pamColor `xml:"Entry"`
}

type pamNames struct {
	Names []string `xml:"Category"`
}

type pamColor struct {
	R uint8 `xml:"c1,attr"`
	G uint8 `xml:"c2,attr"`
	B uint8 `xml:"c3,attr"`
	A uint8 `xml:"c4,attr"`
}

// pamColors returns the colour table of a band if the file's own lacks something: opacity, or where
// values have names the number of values, since QGIS lists as many classes as there are colours.
func (o *Output) pamColors(b *raster.Band) *pamColors {
	whole := 1 << (8 * o.Type.Size())
	if !translucent(b.Colors, o.Nodata) && (b.Categories == nil || len(b.Colors) >= whole) {
		return nil
	}
	list := &pamColors{}
	for v, c := range b.Colors {
		if c.A == 255 && o.Nodata != nil && o.Nodata.Float64() == float64(v) {
			c.A = 0 // as readers of the file's own table have it
		}
		list.Entries = append(list.Entries, pamColor(c))
	}
	return list
}

func newPAMNames(b *raster.Band) *pamNames {
	if names := categories(b); names != nil {
		return &pamNames{names}
	}
	return nil
}

// categories returns the names of a band's values, nil if none has one.
func categories(b *raster.Band) []string {
	if !slices.ContainsFunc(b.Categories, func(s string) bool { return s != "" }) {
		return nil
	}
	return b.Categories
}

type pamItem struct {
	Min          string `xml:"HistMin"`
	Max          string `xml:"HistMax"`
	Buckets      int    `xml:"BucketCount"`
	OutOfRange   int    `xml:"IncludeOutOfRange"`
	Approximate  int    `xml:"Approximate"`
	HistogramTxt string `xml:"HistCounts"`
}

// auxText returns the text of the output's .aux.xml: a CRS that geo keys can't express, ground
// control points that the file can't hold, names of values with their colours, translucent colours,
// and the histograms if they are requested; "" if there is none of these.
func (f *finishedNative) auxText() (string, error) {
	o := f.w
	d := pamDataset{SRS: o.WKT}
	if g := &o.grid; g.GCPs != nil && !g.HasTransform && o.Layout.File.Grid.GCPs == nil {
		d.SRS, d.Points = "", newPAMPoints(g.GCPs, o.WKT)
	}
	for i, b := range f.res.Bands {
		info := &f.bands[i]
		band := pamBand{Band: i + 1, Colors: o.pamColors(info), Categories: newPAMNames(info)}
		if band.Colors != nil {
			band.Color = "Palette"
		}
		if b.Histogram.Counts != nil && o.Spec.HistAux {
			band.Item = newPAMItem(&b)
		}
		if band.Colors != nil || band.Categories != nil || band.Item != nil {
			d.Bands = append(d.Bands, band)
		}
	}
	if len(d.Bands) == 0 && d.SRS == "" && d.Points == nil {
		return "", nil
	}
	text, err := xml.MarshalIndent(d, "", "  ")
	return string(text) + "\n", err
}

// newPAMItem returns a band's histogram.
func newPAMItem(b *outcome.BandResult) *pamItem {
	counts := make([]string, len(b.Histogram.Counts))
	for k, c := range b.Histogram.Counts {
		counts[k] = strconv.FormatUint(c, 10)
	}
	item := &pamItem{Min: number(b.Histogram.Min), Max: number(b.Histogram.Max), Buckets: len(counts),
		HistogramTxt: strings.Join(counts, "|")}
	if b.Histogram.Direct { // a bin extends half a value to each side
		item.Min, item.Max = number(b.Histogram.Min-0.5), number(b.Histogram.Max+0.5)
	}
	return item
}

// createAux writes the output's .aux.xml without giving it its name. It returns nil if the output
// needs none.
func (f *finishedNative) createAux(path string) (*tempfile.File, error) {
	text, err := f.auxText()
	if err != nil || text == "" {
		return nil, err
	}
	file, err := tempfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(file, text); err != nil {
		return nil, errors.Join(err, file.Abort())
	}
	return file, nil
}
