package main

import (
	"fmt"
	"math"
	"strconv"

	"leat/internal/georef"
	"leat/raster"
)

// infoDoc is what leat info --json says of a raster.
type infoDoc struct {
	Path        string                       `json:"path"`
	Format      string                       `json:"format"` // as --format takes it, such as GTiff
	Bytes       *int64                       `json:"bytes"`  // of the file; null: not known
	gridDoc     `json:"grid"`                // of its pixels
	GCPs        *infoGCPs                    `json:"gcps,omitempty"` // ground control points
	Layout      infoLayout                   `json:"layout"`         // how the pixels are stored
	Overviews   []sizeDoc                    `json:"overviews"`
	Mask        string                       `json:"mask"` // none, alpha (a band) or mask (a mask of its own)
	COG         bool                         `json:"cog"`  // it is a cloud-optimized GeoTIFF
	COGFault    string                       `json:"cog_fault,omitempty"`
	Readable    bool                         `json:"readable"` // leat can decode its pixels
	Unreadable  string                       `json:"unreadable,omitempty"`
	Bands       []infoBand                   `json:"bands"`
	Metadata    map[string]string            `json:"metadata,omitempty"`
	Domains     map[string]map[string]string `json:"domains,omitempty"` // other metadata; RPCs are in RPC
	Warnings    []string                     `json:"warnings"`
	Files       []string                     `json:"files,omitempty"` // of a raster that GDAL reads
	Subdatasets []infoSubdataset             `json:"subdatasets,omitempty"`

	cut error // the file ends before some of its pixels
}

// infoGCPs is the ground control points of a raster.
type infoGCPs struct {
	CRS    *crsDoc   `json:"crs"` // null: none
	Points []infoGCP `json:"points"`
}

// infoGCP is a ground control point.
type infoGCP struct {
	ID    string    `json:"id,omitempty"`
	Info  string    `json:"info,omitempty"`
	Pixel jsonFloat `json:"pixel"` // column, from 0 at the left edge
	Line  jsonFloat `json:"line"`  // row, from 0 at the upper edge
	X     jsonFloat `json:"x"`
	Y     jsonFloat `json:"y"`
	Z     jsonFloat `json:"z"`
}

// newInfoGCPs describes ground control points, nil for none.
func newInfoGCPs(g *raster.GCPs) *infoGCPs {
	if g == nil {
		return nil
	}
	d := &infoGCPs{CRS: newCRSDoc(g.CRS), Points: make([]infoGCP, len(g.Points))}
	for i, p := range g.Points {
		d.Points[i] = infoGCP{p.ID, p.Info, jsonFloat(p.Pixel), jsonFloat(p.Line), jsonFloat(p.X), jsonFloat(p.Y),
			jsonFloat(p.Z)}
	}
	return d
}

// infoLayout is how the pixels of a raster are stored.
type infoLayout struct {
	tileDoc
	Tiled       bool      `json:"tiled"`       // false: strips
	Interleave  string    `json:"interleave"`  // band or pixel
	Compression string    `json:"compression"` // unknown: GDAL does not say
	Predictor   int       `json:"predictor"`   // 1: none
	ByteOrder   string    `json:"byte_order"`  // little or big
	BigTIFF     bool      `json:"bigtiff"`
	Ratio       jsonFloat `json:"ratio"` // of the pixels, overviews included, to the file; 0: not known
}

// infoBand is a band of a raster.
type infoBand struct {
	bandDoc
	Name       string            `json:"name,omitempty"`
	Stored     string            `json:"stored_type,omitempty"` // the type in the file, where that is another
	Color      string            `json:"color"`                 // gray, red, alpha and so on; undefined
	Colors     int               `json:"color_table_entries,omitempty"`
	Statistics *statsDoc         `json:"statistics"` // null: the file holds none
	Metadata   map[string]string `json:"metadata,omitempty"`
	Histogram  *infoHistogram    `json:"histogram,omitempty"`
	Table      *infoTable        `json:"attribute_table,omitempty"`
	Categories []string          `json:"categories,omitempty"` // names of the values 0, 1, 2 and so on
}

// maskNames are the kinds of masks in JSON.
var maskNames = [...]string{raster.MaskNone: "none", raster.MaskAlpha: "alpha", raster.MaskDataset: "mask"}

// newInfoDoc describes an open raster. The file at its path is looked at once more for its layout.
func newInfoDoc(src raster.Source) *infoDoc {
	info := src.Info()
	g := info.Grid
	d := &infoDoc{
		Path: info.Path, Format: info.Driver, gridDoc: newGridDoc(g), Mask: maskNames[info.Mask], Readable: true,
		Layout: infoLayout{tileDoc: tileDoc{TileWidth: info.TileWidth, TileHeight: info.TileHeight},
			Tiled: info.TileWidth != g.Width, Interleave: info.Interleave, Compression: info.Compression,
			Predictor: info.Predictor, ByteOrder: info.ByteOrder, BigTIFF: info.BigTIFF},
		Overviews: newSizeDocs(info.Overviews), GCPs: newInfoGCPs(g.GCPs), Metadata: info.Metadata,
		Domains: info.Domains, Warnings: []string{},
	}
	if info.FileBytes > 0 {
		d.Bytes = &info.FileBytes
	}
	pixels := float64(g.Width) * float64(g.Height)
	for _, o := range info.Overviews {
		pixels += float64(float64(o.Width) * float64(o.Height))
	}
	var pixelBytes int64
	for i, b := range info.Bands {
		pixelBytes += int64(b.Type.Size())
		band := infoBand{bandDoc: bandDoc{Band: i + 1, Type: b.Type.String(), Scale: jsonFloat(b.Scale),
			Offset: jsonFloat(b.Offset), Unit: b.Unit}, Name: b.Name, Stored: b.Stored, Color: string(b.Color),
			Colors: len(b.Colors), Statistics: storedStats(b.Metadata), Metadata: b.Metadata}
		if b.Nodata != nil {
			band.Nodata = newPixelValue(b.Nodata.String())
		}
		d.Bands = append(d.Bands, band)
	}
	d.Layout.RawBytes = int64(g.Width) * int64(g.Height) * pixelBytes
	if info.FileBytes > 0 {
		d.Layout.Ratio = jsonFloat(math.Round(100*pixels*float64(pixelBytes)/float64(info.FileBytes)) / 100)
	}
	if r, ok := src.(raster.Decodable); ok {
		if err := r.CheckReadable(); err != nil {
			d.Readable, d.Unreadable = false, errorText(err)
		}
	}
	// A *geotiff.File of internal/geotiff, or what embeds it.
	if f, ok := src.(interface{ COGFault() (string, error) }); ok {
		fault, err := f.COGFault()
		if err != nil {
			fault = err.Error()
		}
		d.COG, d.COGFault = fault == "", fault
	}
	d.warn(info)
	return d
}

// warn lists what stands in the way of a person who works with the raster.
func (d *infoDoc) warn(info *raster.Info) {
	add := func(format string, args ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)) }
	if !d.Readable {
		add("%s", d.Unreadable)
	}
	d.Warnings = append(d.Warnings, info.Warnings...)
	switch {
	case info.Grid.HasTransform && d.Transform == nil:
		add("its georeferencing, %v in GDAL's order, gives no finite coordinates", info.Grid.Transform)
	case info.Driver != "GTiff":
	case info.Grid.GCPs != nil && d.Transform == nil, info.Grid.RPC != nil && d.Transform == nil && d.CRS == nil:
	case d.CRS == nil && d.Transform == nil:
		add("not georeferenced: neither coordinates nor a coordinate reference system")
	case d.CRS == nil:
		add("coordinates without a coordinate reference system: gdal_edit.py -a_srs EPSG:... names it")
	case d.Transform == nil:
		add("a coordinate reference system, but no coordinates")
	}
	if georef.Rotated(info.Grid.Transform) {
		add("the grid is rotated: leat apply has to warp it onto another one (--pixel-size or --grid)")
	}
	const large = 2048
	if info.Driver == "GTiff" && max(d.Width, d.Height) > large {
		if len(d.Overviews) == 0 {
			add("no overviews, so viewers read all of it: gdaladdo -r average FILE 4 8 16 32")
		}
		if !d.Layout.Tiled && d.Layout.TileHeight > 512 {
			add("strips of %d rows must be decoded whole: gdal_translate -co TILED=YES -co COMPRESS=DEFLATE makes it tiled", d.Layout.TileHeight)
		}
	}
	for i, b := range info.Bands {
		if b.NodataText != "" && b.Nodata == nil {
			add("band %d: no pixel of %s can be nodata %s, so every pixel counts", i+1, b.Type, b.NodataText)
			if len(info.Bands) > 1 && i == 0 {
				break // GeoTIFF has one nodata for all bands
			}
		}
	}
}

// storedStats reads GDAL's statistics items; nil when there are none.
func storedStats(m map[string]string) *statsDoc {
	var s statsDoc
	found := false
	for key, to := range map[string]**jsonFloat{
		"STATISTICS_MINIMUM": &s.Min, "STATISTICS_MAXIMUM": &s.Max, "STATISTICS_MEAN": &s.Mean,
		"STATISTICS_STDDEV": &s.StdDev, "STATISTICS_VALID_PERCENT": &s.ValidPercent,
	} {
		if v, err := strconv.ParseFloat(m[key], 64); err == nil {
			*to = newJSONFloat(v)
			found = true
		}
	}
	if !found {
		return nil
	}
	return &s
}
