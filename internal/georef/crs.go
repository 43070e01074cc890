package georef

import (
	"strings"

	"leat/internal/wkt"
	"leat/raster"
)

// Values of the geo key of the model type.
const (
	keyModelType    = 1024
	modelProjected  = 1
	modelGeographic = 2
)

// Geographic reports whether coordinates of a system are longitudes and latitudes, as far as its
// geo keys or its WKT say so.
func Geographic(c raster.CRS) bool { return modelOf(c) == modelGeographic }

// Projected reports whether coordinates of a system are lengths in a map projection, as far as its
// geo keys or its WKT say so.
func Projected(c raster.CRS) bool { return modelOf(c) == modelProjected }

// modelOf returns 0 for other systems, such as geocentric and local ones, and for unknown ones.
func modelOf(c raster.CRS) uint16 {
	if c.Keys != nil {
		if m := keyModel(c.Keys.Directory); m != 0 {
			return m
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

// keyModel returns the model type that a directory of geo keys gives, 0 if none of the two.
func keyModel(directory []uint16) uint16 {
	if len(directory) < 4 {
		return 0
	}
	end := min(len(directory), 4+4*int(directory[3])) // entries after the announced ones do not count
	for i := 4; i+4 <= end; i += 4 {
		id, tag, value := directory[i], directory[i+1], directory[i+3]
		if id == keyModelType && tag == 0 && (value == modelProjected || value == modelGeographic) {
			return value
		}
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
