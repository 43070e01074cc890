package main

import (
	"fmt"
	"math"
	"strconv"

	"leat/raster"
)

// infoDoc is what leat info --json says of a file. Names stay; new ones may come.
type infoDoc struct {
	Path         string                       `json:"path"`
	Driver       string                       `json:"driver"`
	Bytes        int64                        `json:"bytes"` // 0: not known
	Width        int                          `json:"width"`
	Height       int                          `json:"height"`
	CRS          *infoCRS                     `json:"crs"`       // null: none
	Transform    *[6]float64                  `json:"transform"` // GDAL's order; null: not georeferenced
	PixelSize    *[2]float64                  `json:"pixel_size"`
	Bounds       *infoBounds                  `json:"bounds"`
	PixelIsPoint bool                         `json:"pixel_is_point"`
	GCPs         *infoGCPs                    `json:"gcps,omitempty"` // RPCs are items of the domain RPC
	Layout       infoLayout                   `json:"layout"`
	Overviews    []infoSize                   `json:"overviews"`
	Mask         string                       `json:"mask"` // "none", "alpha", "mask"
	COG          bool                         `json:"cog"`
	COGFault     string                       `json:"cog_fault,omitempty"`
	Readable     bool                         `json:"readable"`
	Unreadable   string                       `json:"unreadable,omitempty"`
	Bands        []infoBand                   `json:"bands"`
	Metadata     map[string]string            `json:"metadata,omitempty"`
	Domains      map[string]map[string]string `json:"domains,omitempty"`
	Warnings     []string                     `json:"warnings"`
	Files        []string                     `json:"files,omitempty"` // that a raster consists of which GDAL reads
	Subdatasets  []infoSubdataset             `json:"subdatasets,omitempty"`
}

type infoCRS struct {
	Code string `json:"code,omitempty"`
	Name string `json:"name,omitempty"`
	WKT  string `json:"wkt,omitempty"`
	text string
}

type infoGCPs struct {
	CRS    *infoCRS  `json:"crs"` // null: none
	Points []infoGCP `json:"points"`
}

type infoGCP struct {
	ID    string  `json:"id,omitempty"`
	Info  string  `json:"info,omitempty"`
	Pixel float64 `json:"pixel"` // column
	Line  float64 `json:"line"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Z     float64 `json:"z"`
}

// newInfoGCPs describes ground control points, nil for none.
func newInfoGCPs(g *raster.GCPs) *infoGCPs {
	if g == nil {
		return nil
	}
	d := &infoGCPs{CRS: newInfoCRS(g.CRS), Points: make([]infoGCP, len(g.Points))}
	for i, p := range g.Points {
		d.Points[i] = infoGCP(p)
	}
	return d
}

// newInfoCRS describes a system, nil for none.
func newInfoCRS(c raster.CRS) *infoCRS {
	if c.IsZero() {
		return nil
	}
	return &infoCRS{c.Code, c.Name, c.WKT, c.String()}
}

type infoBounds struct {
	MinX float64 `json:"min_x"`
	MinY float64 `json:"min_y"`
	MaxX float64 `json:"max_x"`
	MaxY float64 `json:"max_y"`
}

type infoLayout struct {
	TileWidth   int     `json:"tile_width"`
	TileHeight  int     `json:"tile_height"`
	Tiled       bool    `json:"tiled"` // false: strips
	Interleave  string  `json:"interleave"`
	Compression string  `json:"compression"` // "unknown": GDAL does not tell
	Predictor   int     `json:"predictor"`
	ByteOrder   string  `json:"byte_order"`
	BigTIFF     bool    `json:"bigtiff"`
	RawBytes    int64   `json:"raw_bytes"` // pixels at full resolution, not compressed
	Ratio       float64 `json:"ratio"`     // of raw_bytes, overviews included, to the file
}

type infoSize struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

type infoBand struct {
	Band       int               `json:"band"`
	Type       string            `json:"type"`
	Stored     string            `json:"stored,omitempty"` // where it differs from type
	Name       string            `json:"name,omitempty"`
	Color      string            `json:"color"`
	Nodata     *string           `json:"nodata"` // as text, so that it is exact; null: none
	Scale      float64           `json:"scale"`
	Offset     float64           `json:"offset"`
	Unit       string            `json:"unit,omitempty"`
	Colors     int               `json:"color_table_entries,omitempty"`
	Statistics *infoStats        `json:"statistics"` // null: the file holds none
	Metadata   map[string]string `json:"metadata,omitempty"`
	Histogram  *infoHistogram    `json:"histogram,omitempty"`
	Table      *infoTable        `json:"attribute_table,omitempty"`
	Categories []string          `json:"categories,omitempty"` // names of the values 0, 1, 2 and so on
}

// infoStats are null where the file does not say, or where a value is not finite.
type infoStats struct {
	Min          *float64 `json:"min"`
	Max          *float64 `json:"max"`
	Mean         *float64 `json:"mean"`
	StdDev       *float64 `json:"std_dev"`
	ValidPercent *float64 `json:"valid_percent"`
	Computed     bool     `json:"computed"` // from the pixels just now, not found in the file
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// newInfoDoc describes an open raster. The file at its path is looked at once more for its layout.
func newInfoDoc(src raster.Source) *infoDoc {
	info := src.Info()
	g := info.Grid
	d := &infoDoc{
		Path: info.Path, Driver: info.Driver, Bytes: info.FileBytes, Width: g.Width, Height: g.Height,
		PixelIsPoint: g.PixelIsPoint, Mask: info.Mask.String(), Readable: true,
		Layout: infoLayout{TileWidth: info.TileWidth, TileHeight: info.TileHeight, Tiled: info.TileWidth != g.Width,
			Interleave: info.Interleave, Compression: info.Compression, Predictor: info.Predictor,
			ByteOrder: info.ByteOrder, BigTIFF: info.BigTIFF},
		Overviews: []infoSize{}, Metadata: info.Metadata, Domains: info.Domains, Warnings: []string{},
	}
	d.CRS, d.GCPs = newInfoCRS(g.CRS), newInfoGCPs(g.GCPs)
	minX, minY, maxX, maxY := g.Bounds()
	// JSON has no other numbers
	if edges := (raster.Transform{minX, minY, maxX, maxY}); g.HasTransform && g.Transform.Finite() && edges.Finite() {
		t := [6]float64(g.Transform)
		d.Transform = &t
		d.PixelSize = &[2]float64{math.Hypot(t[1], t[4]), math.Hypot(t[2], t[5])}
		d.Bounds = &infoBounds{minX, minY, maxX, maxY}
	}
	pixels := float64(g.Width) * float64(g.Height)
	for _, o := range info.Overviews {
		d.Overviews = append(d.Overviews, infoSize{o.Width, o.Height})
		pixels += float64(float64(o.Width) * float64(o.Height))
	}
	var pixelBytes int64
	for i, b := range info.Bands {
		pixelBytes += int64(b.Type.Size())
		band := infoBand{Band: i + 1, Type: b.Type.String(), Stored: b.Stored, Name: b.Name, Color: string(b.Color),
			Scale: b.Scale, Offset: b.Offset, Unit: b.Unit, Colors: len(b.Colors), Statistics: storedStats(b.Metadata),
			Metadata: b.Metadata}
		if b.Nodata != nil {
			s := b.Nodata.String()
			band.Nodata = &s
		}
		d.Bands = append(d.Bands, band)
	}
	d.Layout.RawBytes = int64(g.Width) * int64(g.Height) * pixelBytes
	if info.FileBytes > 0 {
		d.Layout.Ratio = math.Round(100*pixels*float64(pixelBytes)/float64(info.FileBytes)) / 100
	}
	if r, ok := src.(raster.Decodable); ok {
		if err := r.CheckReadable(); err != nil {
			d.Readable, d.Unreadable = false, errorText(err)
		}
	}
	// A *geotiff.File, or what embeds it.
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
	if info.Grid.Transform.Rotated() {
		add("the grid is rotated: leat apply has to warp it onto another one (--grid)")
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
func storedStats(m map[string]string) *infoStats {
	var s infoStats
	found := false
	for key, to := range map[string]**float64{
		"STATISTICS_MINIMUM": &s.Min, "STATISTICS_MAXIMUM": &s.Max, "STATISTICS_MEAN": &s.Mean,
		"STATISTICS_STDDEV": &s.StdDev, "STATISTICS_VALID_PERCENT": &s.ValidPercent,
	} {
		if v, err := strconv.ParseFloat(m[key], 64); err == nil {
			*to = finite(v)
			found = true
		}
	}
	if !found {
		return nil
	}
	return &s
}
