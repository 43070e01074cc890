package raster

import (
	"strings"

	"leat/internal/wkt"
)

// Values of the geo key of the model type.
const (
	keyModelType    = 1024
	modelProjected  = 1
	modelGeographic = 2
)

// Geographic reports whether coordinates are longitudes and latitudes, as far as the geo keys or
// the WKT say so.
func (c CRS) Geographic() bool { return c.model() == modelGeographic }

// Projected reports whether coordinates are lengths in a map projection, as far as the geo keys or
// the WKT say so.
func (c CRS) Projected() bool { return c.model() == modelProjected }

// model returns 0 for other systems, such as geocentric and local ones, and for unknown ones.
func (c CRS) model() uint16 {
	if c.Keys != nil {
		for _, k := range c.Keys.defining() {
			if k.id == keyModelType && (k.value == modelProjected || k.value == modelGeographic) {
				return k.value
			}
		}
	}
	if c.WKT == "" {
		return 0
	}
	n, err := wkt.Parse(c.WKT)
	if err != nil { // ESRI's text of a system with heights is two nodes
		keyword, _, _ := strings.Cut(c.WKT, "[")
		n = &wkt.Node{Keyword: strings.ToUpper(strings.TrimSpace(keyword))}
	}
	if n = horizontal(n); n == nil {
		return 0
	}
	switch n.Keyword {
	case "GEOGCS", "GEOGCRS", "GEOGRAPHICCRS":
		return modelGeographic
	case "GEODCRS", "GEODETICCRS": // WKT2:2015 has no other keyword for geographic systems
		if strings.EqualFold(n.Child("CS").Name(), "ellipsoidal") {
			return modelGeographic
		}
	case "PROJCS", "PROJCRS", "PROJECTEDCRS", "DERIVEDPROJCRS":
		return modelProjected
	}
	return 0
}

// horizontal returns the part of a system that has the horizontal coordinates, nil if there is
// none.
func horizontal(n *wkt.Node) *wkt.Node {
	for n != nil {
		switch n.Keyword {
		case "COMPD_CS", "COMPOUNDCRS":
			n, _ = n.Parts()
		case "BOUNDCRS":
			n = n.Child("SOURCECRS")
		case "SOURCECRS":
			if len(n.Nodes) == 0 {
				return nil
			}
			n = n.Nodes[0]
		default:
			return n
		}
	}
	return nil
}
