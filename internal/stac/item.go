// Package stac reads and writes STAC Items (SpatioTemporal Asset Catalog, version 1.0.0):
// descriptions of rasters as GeoJSON. [Item.Marshal] makes the text of an item whose rasters share
// a grid, and [NewFootprint] computes where that grid lies on the earth. [Parse] reads items and
// ItemCollections, as far as they say where files are and when they were taken.
package stac

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"leat/internal/georef"
	"leat/internal/storeurl"
	"leat/ndarray"
	"leat/raster"
)

// Item describes rasters on one grid.
type Item struct {
	ID    string
	Start time.Time
	End   time.Time // equal to Start for a moment
	Grid  raster.Grid
	WKT   string // of the grid's CRS in WKT2, where that has no EPSG code; may be empty
	// Footprint is nil if the grid has no place on the earth.
	Footprint *Footprint
	Assets    []Asset // at least one
}

// Asset is one raster of an Item.
type Asset struct {
	Key    string
	Href   string
	Format string // GDAL's name
	COG    bool
	Type   ndarray.DType
	Nodata *ndarray.Scalar
	Bands  []Band
}

// Band is one band of an Asset.
type Band struct {
	Name          string
	Unit          string
	Scale, Offset float64 // 0 means 1 for Scale
	Pixels, Valid int64   // as in outcome.BandResult; no statistics if Pixels is 0
	ValidPercent  float64
	Min, Max      float64
	Mean, StdDev  float64
}

// Extensions of the specification that items use.
const (
	projectionExtension = "https://stac-extensions.github.io/projection/v1.1.0/schema.json"
	rasterExtension     = "https://stac-extensions.github.io/raster/v1.1.0/schema.json"
)

type itemDoc struct {
	Type       string              `json:"type"`
	Version    string              `json:"stac_version"`
	Extensions []string            `json:"stac_extensions"`
	ID         string              `json:"id"`
	Geometry   *Geometry           `json:"geometry"`
	BBox       *[4]float64         `json:"bbox,omitempty"`
	Properties map[string]any      `json:"properties"`
	Links      []struct{}          `json:"links"`
	Assets     map[string]assetDoc `json:"assets"`
}

type assetDoc struct {
	Href  string    `json:"href"`
	Type  string    `json:"type,omitempty"`
	Roles []string  `json:"roles"`
	Bands []bandDoc `json:"raster:bands"`
}

type bandDoc struct {
	Name       string    `json:"name,omitempty"`
	DataType   string    `json:"data_type"`
	Nodata     any       `json:"nodata,omitempty"` // a number, or the text nan, inf or -inf
	Sampling   string    `json:"sampling"`
	Unit       string    `json:"unit,omitempty"`
	Scale      *float64  `json:"scale,omitempty"`
	Offset     *float64  `json:"offset,omitempty"`
	Statistics *statsDoc `json:"statistics,omitempty"`
}

type statsDoc struct {
	Minimum *float64 `json:"minimum,omitempty"`
	Maximum *float64 `json:"maximum,omitempty"`
	Mean    *float64 `json:"mean,omitempty"`
	StdDev  *float64 `json:"stddev,omitempty"`
	Percent float64  `json:"valid_percent"`
}

// Marshal returns the item as JSON, which is the same for the same item.
func (it *Item) Marshal() ([]byte, error) {
	d := itemDoc{Type: "Feature", Version: "1.0.0", Extensions: []string{projectionExtension, rasterExtension},
		ID: it.ID, Properties: it.properties(), Links: []struct{}{}, Assets: map[string]assetDoc{}}
	if f := it.Footprint; f != nil && f.Geometry != nil {
		d.Geometry, d.BBox = f.Geometry, &f.BBox
	}
	for _, a := range it.Assets {
		d.Assets[a.Key] = a.doc(it.Grid.PixelIsPoint)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("STAC item %s: %w", it.ID, err)
	}
	return append(text, '\n'), nil
}

func (it *Item) properties() map[string]any {
	p := map[string]any{"proj:shape": [2]int{it.Grid.Height, it.Grid.Width}, "proj:epsg": nil}
	if it.Start.Equal(it.End) {
		p["datetime"] = timeText(it.Start)
	} else {
		p["datetime"], p["start_datetime"], p["end_datetime"] = nil, timeText(it.Start), timeText(it.End)
	}
	g := it.Grid
	if number, ok := strings.CutPrefix(g.CRS.Code, "EPSG:"); ok {
		if code, err := strconv.Atoi(number); err == nil {
			p["proj:epsg"] = code
		}
	}
	if it.WKT != "" {
		p["proj:wkt2"] = it.WKT
	}
	minX, minY, maxX, maxY := g.Bounds()
	if t := g.Transform; g.HasTransform && georef.Finite(t) && georef.Finite(raster.Transform{minX, minY, maxX, maxY}) {
		p["proj:transform"] = [6]float64{t[1], t[2], t[0], t[4], t[5], t[3]}
		p["proj:bbox"] = [4]float64{minX, minY, maxX, maxY}
	}
	return p
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// mediaTypes are the media types of GDAL's formats.
var mediaTypes = map[string]string{"GTiff": "image/tiff; application=geotiff",
	"COG": "image/tiff; application=geotiff; profile=cloud-optimized", "PNG": "image/png", "JPEG": "image/jpeg",
	"JP2OpenJPEG": "image/jp2", "netCDF": "application/netcdf", "HDF5": "application/x-hdf5", "GPKG": "application/geopackage+sqlite3"}

func (a *Asset) doc(point bool) assetDoc {
	d := assetDoc{Href: a.Href, Type: mediaTypes[a.Format], Roles: []string{"data"}, Bands: []bandDoc{}}
	if a.Format == "GTiff" && a.COG {
		d.Type = mediaTypes["COG"]
	}
	for _, b := range a.Bands {
		band := bandDoc{Name: b.Name, DataType: dataType(a.Type), Sampling: "area", Unit: b.Unit, Nodata: nodata(a.Nodata)}
		if point {
			band.Sampling = "point"
		}
		if b.Scale != 0 && b.Scale != 1 || b.Offset != 0 {
			scale, offset := b.Scale, b.Offset
			if scale == 0 {
				scale = 1
			}
			band.Scale, band.Offset = &scale, &offset
		}
		if b.Pixels > 0 {
			s := &statsDoc{Percent: b.ValidPercent}
			if b.Valid > 0 {
				s.Minimum, s.Maximum = finite(b.Min), finite(b.Max)
				s.Mean, s.StdDev = finite(b.Mean), finite(b.StdDev)
			}
			band.Statistics = s
		}
		d.Bands = append(d.Bands, band)
	}
	return d
}

func finite(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}

// dataType returns the specification's name of a type.
func dataType(t ndarray.DType) string {
	switch t {
	case ndarray.Complex64:
		return "cfloat32"
	case ndarray.Complex128:
		return "cfloat64"
	}
	return t.String()
}

// nodata returns a nodata value as JSON has it: exact for integers.
func nodata(v *ndarray.Scalar) any {
	if v == nil {
		return nil
	}
	if v.Type.IsFloat() {
		switch f := v.Float64(); {
		case math.IsNaN(f):
			return "nan"
		case math.IsInf(f, 1):
			return "inf"
		case math.IsInf(f, -1):
			return "-inf"
		}
	}
	return json.Number(v.String())
}

// Href returns how an item refers to a raster; each is the path of a file or a URL. A raster in the
// item's directory of a store, or any file, has a relative reference.
func Href(item, asset string) (string, error) {
	if storeurl.Is(asset) {
		label := storeurl.Redact(asset)
		item := storeurl.Redact(item)
		if at := strings.LastIndex(item, "/"); storeurl.Is(item) && strings.HasPrefix(label, item[:at+1]) {
			return "./" + label[at+1:], nil
		}
		return label, nil
	}
	if storeurl.Is(item) {
		return "", fmt.Errorf("%s is a file on this machine, which an item in a store can't refer to", asset)
	}
	from, err := filepath.Abs(filepath.Dir(item))
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(asset)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return "", err
	}
	text := (&url.URL{Path: path.Clean(filepath.ToSlash(rel))}).EscapedPath()
	if !strings.HasPrefix(text, "../") {
		text = "./" + text
	}
	return text, nil
}

// timeLayouts are accepted by ParseTime; those without a zone are in UTC. The third is that of
// TIFF's DateTime tag.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006:01:02 15:04:05", "2006-01-02 15:04:05", "2006-01-02"}

// ParseTime reads a moment.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: expected one such as 2024-06-01 or 2024-06-01T10:30:00Z", text)
}

// TimeOf returns when a raster was taken, as far as its metadata say: the acquisition time of
// GDAL's domain IMAGERY, else TIFF's DateTime tag.
func TimeOf(info *raster.Info) (time.Time, bool) {
	for _, text := range []string{info.Domains["IMAGERY"]["ACQUISITIONDATETIME"], info.Metadata["ACQUISITIONDATETIME"],
		info.Metadata["TIFFTAG_DATETIME"]} {
		if text == "" {
			continue
		}
		if t, err := ParseTime(text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
