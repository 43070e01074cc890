// Package georef compares, checks and encodes ground control points and rational polynomial
// coefficients, for the drivers of package raster and for outputs. It distinguishes geographic from
// projected coordinate reference systems.
package georef

import (
	"math"
	"slices"

	"leat/raster"
)

// EqualGCPs reports whether both name the same places in the same system, whatever the points are
// called. Either may be nil.
func EqualGCPs(g, o *raster.GCPs) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.CRS.Equal(o.CRS) && slices.EqualFunc(g.Points, o.Points, func(a, b raster.GCP) bool {
		a.ID, a.Info, b.ID, b.Info = "", "", "", ""
		return a == b
	})
}

// FiniteGCPs reports whether all numbers of the points are finite.
func FiniteGCPs(g *raster.GCPs) bool {
	for _, p := range g.Points {
		for _, v := range [5]float64{p.Pixel, p.Line, p.X, p.Y, p.Z} {
			if v-v != 0 {
				return false
			}
		}
	}
	return true
}

// Finite reports whether all numbers of the transform are finite.
func Finite(t raster.Transform) bool {
	for _, v := range t {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Rotated reports whether a grid is rotated or sheared against the axes of the map.
func Rotated(t raster.Transform) bool { return t[2] != 0 || t[4] != 0 }
