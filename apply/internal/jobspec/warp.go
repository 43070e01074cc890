package jobspec

import (
	"encoding/json"

	"leat/raster"
)

// Warp describes how a file off the grid is warped onto it when it is read. It contains all that
// another process needs to do the same.
type Warp struct {
	Grid      ExactGrid `json:"grid"` // the reference
	Method    string    `json:"method"`
	Nodata    []string  `json:"nodata"` // for each band of the file
	Overviews bool      `json:"overviews,omitempty"`
	NoMask    bool      `json:"no_mask,omitempty"`
	MaxBytes  int64     `json:"max_bytes"`
	GDAL      string    `json:"gdal"` // GDAL's version: others may resample differently
}

// ExactGrid is a grid that JSON preserves exactly: the texts of a CRS need not be UTF-8.
type ExactGrid struct{ raster.Grid }

type exactGridDoc struct {
	Grid            raster.Grid `json:"grid"`
	Name, WKT, Keys []byte
}

func (g ExactGrid) MarshalJSON() ([]byte, error) {
	d := exactGridDoc{Grid: g.Grid, Name: []byte(g.CRS.Name), WKT: []byte(g.CRS.WKT)}
	if k := g.CRS.Keys; k != nil {
		d.Keys = []byte(k.ASCII)
	}
	return json.Marshal(d)
}

func (g *ExactGrid) UnmarshalJSON(text []byte) error {
	var d exactGridDoc
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	g.Grid = d.Grid
	g.CRS.Name, g.CRS.WKT = string(d.Name), string(d.WKT)
	if g.CRS.Keys != nil {
		g.CRS.Keys.ASCII = string(d.Keys)
	}
	return nil
}
