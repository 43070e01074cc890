package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"leat/apply/outcome"
	"leat/internal/georef"
	"leat/internal/terminal"
	"leat/raster"
	"leat/timing"
)

// writeJSON writes one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// jsonFloat is a number in --json. JSON has no NaN and no infinities: they are the strings "nan",
// "inf" and "-inf".
type jsonFloat float64

// MarshalJSON returns the shortest number that is exact, or one of the strings.
func (v jsonFloat) MarshalJSON() ([]byte, error) {
	switch f := float64(v); {
	case math.IsNaN(f):
		return []byte(`"nan"`), nil
	case math.IsInf(f, 0):
		return fmt.Appendf(nil, "%q", map[bool]string{true: "inf", false: "-inf"}[f > 0]), nil
	default:
		return json.Marshal(f)
	}
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *jsonFloat) UnmarshalJSON(b []byte) error {
	text := string(b)
	if n := len(text); n > 1 && text[0] == '"' {
		text = text[1 : n-1]
	}
	f, err := strconv.ParseFloat(text, 64)
	*v = jsonFloat(f)
	return err
}

// newJSONFloat returns a pointer to a number.
func newJSONFloat(v float64) *jsonFloat {
	f := jsonFloat(v)
	return &f
}

// pixelValue is the text of a pixel's value: a number with all its digits, also of 64-bit integers,
// or one of the strings of jsonFloat.
type pixelValue string

// MarshalJSON returns the number or the string.
func (v pixelValue) MarshalJSON() ([]byte, error) {
	if json.Valid([]byte(v)) {
		return []byte(v), nil
	}
	return json.Marshal(string(v))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *pixelValue) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	*v = pixelValue(text)
	return nil
}

// newPixelValue returns the value of a text of apply or ndarray, nil for "none".
func newPixelValue(text string) *pixelValue {
	if text == "none" || text == "" {
		return nil
	}
	v := pixelValue(text)
	return &v
}

// crsDoc is a coordinate reference system in --json.
type crsDoc struct {
	Code string `json:"code,omitempty"` // such as EPSG:32631
	Name string `json:"name,omitempty"` // such as WGS 84 / UTM zone 31N
	WKT  string `json:"wkt,omitempty"`  // of a system that has no code
	text string
}

// newCRSDoc describes a system, nil for none.
func newCRSDoc(c raster.CRS) *crsDoc {
	if c.IsZero() {
		return nil
	}
	return &crsDoc{c.Code, c.Name, c.WKT, c.String()}
}

// String returns the system for people.
func (c *crsDoc) String() string {
	if c == nil {
		return "none"
	}
	return c.text
}

// gridDoc is a grid in --json.
type gridDoc struct {
	Width        int           `json:"width"`          // columns
	Height       int           `json:"height"`         // rows
	CRS          *crsDoc       `json:"crs"`            // null: none
	Transform    *[6]float64   `json:"transform"`      // in GDAL's order; null: not georeferenced
	PixelSize    *[2]float64   `json:"pixel_size"`     // along rows and along columns, in units of the CRS
	Bounds       *[4]jsonFloat `json:"bounds"`         // smallest x and y, largest x and y: the edges
	PixelIsPoint bool          `json:"pixel_is_point"` // the file names centres of pixels
}

// newGridDoc describes a grid. One without finite coordinates has none.
func newGridDoc(g raster.Grid) gridDoc {
	d := gridDoc{Width: g.Width, Height: g.Height, CRS: newCRSDoc(g.CRS), PixelIsPoint: g.PixelIsPoint}
	minX, minY, maxX, maxY := g.Bounds()
	edges := raster.Transform{minX, minY, maxX, maxY}
	if g.HasTransform && georef.Finite(g.Transform) && georef.Finite(edges) {
		t := [6]float64(g.Transform)
		d.Transform = &t
		d.PixelSize = &[2]float64{math.Hypot(t[1], t[4]), math.Hypot(t[2], t[5])}
		d.Bounds = &[4]jsonFloat{jsonFloat(minX), jsonFloat(minY), jsonFloat(maxX), jsonFloat(maxY)}
	}
	return d
}

// sizeDoc is the size of an overview in --json.
type sizeDoc struct {
	Width  int `json:"width"`  // columns
	Height int `json:"height"` // rows
}

// newSizeDocs describes the sizes of overviews, never null.
func newSizeDocs(list []raster.Size) []sizeDoc {
	docs := []sizeDoc{}
	for _, s := range list {
		docs = append(docs, sizeDoc{s.Width, s.Height})
	}
	return docs
}

// bandDoc is what --json has of every band.
type bandDoc struct {
	Band   int         `json:"band"`   // counted from 1
	Type   string      `json:"type"`   // as --type takes it, such as uint8 or float32
	Nodata *pixelValue `json:"nodata"` // null: none
	Scale  jsonFloat   `json:"scale"`  // value = pixel * scale + offset
	Offset jsonFloat   `json:"offset"`
	Unit   string      `json:"unit,omitempty"`
}

// newBandDoc describes a band, counted from 0.
func newBandDoc(i int, typ string, nodata *pixelValue, s outcome.Scaling) bandDoc {
	return bandDoc{i + 1, typ, nodata, jsonFloat(s.Scale), jsonFloat(s.Offset), s.Unit}
}

// tileDoc is what --json has of how every raster is stored.
type tileDoc struct {
	TileWidth  int   `json:"tile_width"`  // pixels of a tile or strip
	TileHeight int   `json:"tile_height"` // rows of a tile or strip
	RawBytes   int64 `json:"raw_bytes"`   // pixels before compression; of outputs with overviews
}

// statsDoc is the statistics of a band in --json. A value that is not known is null.
type statsDoc struct {
	Min          *jsonFloat `json:"min"`
	Max          *jsonFloat `json:"max"`
	Mean         *jsonFloat `json:"mean"`
	StdDev       *jsonFloat `json:"std_dev"`
	ValidPercent *jsonFloat `json:"valid_percent"` // of the pixels
	Computed     bool       `json:"computed"`      // from all pixels just now, not read from the file
}

// blocksDoc counts blocks in --json.
type blocksDoc struct {
	Blocks     int `json:"blocks"`      // that are computed: all, unless some are skipped
	DoneBlocks int `json:"done_blocks"` // of these, finished
}

// eventDoc is what every event of leat apply --json has.
type eventDoc struct {
	Event string    `json:"event"` // which it is
	Time  time.Time `json:"time"`  // when it was written
}

// newEventDoc returns an event of now.
func newEventDoc(event string) eventDoc { return eventDoc{event, time.Now().UTC()} }

// removedDoc is a file that was removed, in --json.
type removedDoc struct {
	Event string `json:"event"` // removed
	Path  string `json:"path"`
}

// leftoverDoc is a file that would be removed without --plan, in --json.
type leftoverDoc struct {
	Event string `json:"event"` // leftover
	Path  string `json:"path"`
}

// printRemoved prints that a file was removed or, with dryRun, that it would be.
func printRemoved(w io.Writer, path string, asJSON, dryRun bool) error {
	var err error
	switch {
	case asJSON && dryRun:
		err = writeJSON(w, leftoverDoc{"leftover", path})
	case asJSON:
		err = writeJSON(w, removedDoc{"removed", path})
	case dryRun:
		_, err = fmt.Fprintln(w, "would remove", terminal.Name(path))
	default:
		_, err = fmt.Fprintln(w, "removed", terminal.Name(path))
	}
	return stdoutError(err)
}

// timingsDoc is where the time of a run went, in --json.
type timingsDoc struct {
	ElapsedSeconds float64    `json:"elapsed_seconds"`
	CPUSeconds     float64    `json:"cpu_seconds"` // processor time of this process; 0: not known
	Stages         []stageDoc `json:"stages"`
	Gauges         []gaugeDoc `json:"gauges"`
}

// stageDoc is a stage of the blocks' way through a run, in --json.
type stageDoc struct {
	Stage        string  `json:"stage"`
	Count        int64   `json:"count"` // how often it was passed
	TotalSeconds float64 `json:"total_seconds"`
	MinSeconds   float64 `json:"min_seconds"`
	Lower        float64 `json:"lower_quartile_seconds"`
	Median       float64 `json:"median_seconds"`
	Upper        float64 `json:"upper_quartile_seconds"`
	MaxSeconds   float64 `json:"max_seconds"`
}

// gaugeDoc is a number that was looked at now and then, in --json.
type gaugeDoc struct {
	Gauge string  `json:"gauge"`
	Count int64   `json:"count"` // how often it was looked at
	Min   float64 `json:"min"`
	Mean  float64 `json:"mean"`
	Max   float64 `json:"max"`
}

// newTimingsDoc describes a summary.
func newTimingsDoc(s timing.Summary) timingsDoc {
	d := timingsDoc{s.Wall.Seconds(), s.CPU.Seconds(), []stageDoc{}, []gaugeDoc{}}
	for _, t := range s.Stages {
		d.Stages = append(d.Stages, stageDoc{t.Stage, t.N, t.Total.Seconds(), t.Min.Seconds(), t.Lower.Seconds(),
			t.Median.Seconds(), t.Upper.Seconds(), t.Max.Seconds()})
	}
	for _, g := range s.Gauges {
		d.Gauges = append(d.Gauges, gaugeDoc{g.Gauge, g.N, float64(g.Min), g.Mean, float64(g.Max)})
	}
	return d
}

// orEmpty is the list, never null.
func orEmpty(list []string) []string { return append([]string{}, list...) }
