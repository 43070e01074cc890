package raster

import "slices"

// GCPs are ground control points: the places of pixels of a raster that usually has no transform.
// They must not be changed.
type GCPs struct {
	Points []GCP
	CRS    CRS // of X and Y; zero where the file names none
}

// GCP is a ground control point: a pixel coordinate, as [Transform] takes it, and its place.
type GCP struct {
	ID, Info    string
	Pixel, Line float64 // column and row
	X, Y, Z     float64 // X and Y in GCPs.CRS; Z is the height
}

// shift returns the points of a window whose upper left pixel is (col, row). g may be nil.
func (g *GCPs) shift(col, row int) *GCPs {
	if g == nil || col == 0 && row == 0 {
		return g
	}
	s := &GCPs{Points: slices.Clone(g.Points), CRS: g.CRS}
	for i := range s.Points {
		s.Points[i].Pixel -= float64(col)
		s.Points[i].Line -= float64(row)
	}
	return s
}

// RPC holds rational polynomial coefficients, by which longitude, latitude and height on WGS 84
// give the row and column of a pixel's centre (NITF's RPC00B, and the TIFF tag RPCCoefficientTag).
// It must not be changed.
type RPC struct {
	ErrBias, ErrRand float64 // in metres; -1 where they are not known

	LineOff, SampOff, LatOff, LongOff, HeightOff           float64
	LineScale, SampScale, LatScale, LongScale, HeightScale float64

	LineNum, LineDen, SampNum, SampDen [20]float64
}

// shift returns the coefficients of a window whose upper left pixel is (col, row). r may be nil.
func (r *RPC) shift(col, row int) *RPC {
	if r == nil || col == 0 && row == 0 {
		return r
	}
	s := *r
	s.LineOff -= float64(row)
	s.SampOff -= float64(col)
	return &s
}
