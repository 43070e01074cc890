package output

import (
	"encoding/xml"
	"io"
	"strconv"
	"strings"

	"leat/internal/tempfile"
	"leat/raster"
)

// pamDataset is the part of GDAL's .aux.xml that holds the CRS and histograms.
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
	Band int     `xml:"band,attr"`
	Item pamItem `xml:"Histograms>HistItem"`
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
// control points that the file can't hold, and the histograms if they are requested; "" if there is
// none of these.
func (f *finishedNative) auxText() (string, error) {
	o := f.w
	d := pamDataset{SRS: o.WKT}
	if g := &o.grid; g.GCPs != nil && !g.HasTransform && o.Layout.File.Grid.GCPs == nil {
		d.SRS, d.Points = "", newPAMPoints(g.GCPs, o.WKT)
	}
	for i, b := range f.res.Bands {
		if b.Bins.Counts == nil || !o.Spec.HistAux {
			continue
		}
		counts := make([]string, len(b.Bins.Counts))
		for k, c := range b.Bins.Counts {
			counts[k] = strconv.FormatUint(c, 10)
		}
		item := pamItem{Min: number(b.Bins.Min), Max: number(b.Bins.Max), Buckets: len(counts),
			HistogramTxt: strings.Join(counts, "|")}
		if b.Bins.Direct { // a bin extends half a value to each side
			item.Min, item.Max = number(b.Bins.Min-0.5), number(b.Bins.Max+0.5)
		}
		d.Bands = append(d.Bands, pamBand{i + 1, item})
	}
	if len(d.Bands) == 0 && d.SRS == "" && d.Points == nil {
		return "", nil
	}
	text, err := xml.MarshalIndent(d, "", "  ")
	return string(text) + "\n", err
}

func (f *finishedNative) writeAux(path string) error {
	text, err := f.auxText()
	if err != nil || text == "" {
		return err
	}
	aux, err := tempfile.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer aux.Abort()
	if _, err := io.WriteString(aux, text); err != nil {
		return err
	}
	return aux.Commit()
}
