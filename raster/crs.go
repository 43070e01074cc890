package raster

import "slices"

// CRS is a coordinate reference system as its file states it. leat compares it, shows it and writes
// it out unchanged, but does no geodesy with it. The zero CRS means that the file names none.
type CRS struct {
	Code string   // "EPSG:32631" where the file gives a code, else empty
	Name string   // for people: "WGS 84 / UTM zone 31N"; may be empty
	WKT  string   // where the file holds one (an ESRI PE string), else empty
	Keys *GeoKeys // the GeoTIFF keys, nil for other formats
}

// GeoKeys are the three tags in which a GeoTIFF holds its coordinate reference system, unchanged.
type GeoKeys struct {
	Directory []uint16  // tag 34735, header included
	Doubles   []float64 // tag 34736
	ASCII     string    // tag 34737
}

// Geo keys and tags that do not define the system itself.
const (
	keyRasterType      = 1025
	keyCitation        = 1026
	keyGeogCitation    = 2049
	keyProjCitation    = 3073
	keyVertCitation    = 4097
	tagGeoDoubleParams = 34736
	tagGeoASCIIParams  = 34737
)

// IsZero reports whether no system is given.
func (c CRS) IsZero() bool {
	return c.Code == "" && c.WKT == "" && (c.Keys == nil || len(c.Keys.defining()) == 0)
}

// Equal reports whether two systems are known to be the same: by code if both have one, else by
// their geo keys without citations, else by WKT.
func (c CRS) Equal(o CRS) bool {
	if c.IsZero() || o.IsZero() {
		return c.IsZero() && o.IsZero()
	}
	if c.Code != "" && o.Code != "" {
		return c.Code == o.Code
	}
	if c.Keys != nil && o.Keys != nil {
		a, b := c.Keys.defining(), o.Keys.defining()
		return slices.EqualFunc(a, b, func(x, y geoKey) bool {
			return x.id == y.id && x.value == y.value && x.text == y.text && slices.Equal(x.doubles, y.doubles)
		})
	}
	return c.WKT != "" && c.WKT == o.WKT
}

// String returns a name of the system for people.
func (c CRS) String() string {
	switch {
	case c.Code != "" && c.Name != "":
		return c.Code + " (" + c.Name + ")"
	case c.Code != "":
		return c.Code
	case c.Name != "":
		return c.Name
	case c.WKT != "":
		return c.WKT
	case c.IsZero():
		return "none"
	}
	return "user-defined"
}

type geoKey struct {
	id, value uint16
	doubles   []float64
	text      string
}

// defining returns the keys that define the system, without citations and the raster type. Where
// the directory is damaged, it returns the keys before the damage.
func (k *GeoKeys) defining() []geoKey {
	var keys []geoKey
	end := len(k.Directory)
	if end >= 4 { // entries after the announced ones do not count
		end = min(end, 4+4*int(k.Directory[3]))
	}
	for i := 4; i+4 <= end; i += 4 {
		id, tag, count, value := k.Directory[i], k.Directory[i+1], int(k.Directory[i+2]), k.Directory[i+3]
		switch id {
		case keyRasterType, keyCitation, keyGeogCitation, keyProjCitation, keyVertCitation:
			continue
		}
		g := geoKey{id: id}
		switch tag {
		case 0:
			g.value = value
		case tagGeoDoubleParams:
			if int(value)+count > len(k.Doubles) {
				return keys
			}
			g.doubles = k.Doubles[value : int(value)+count]
		case tagGeoASCIIParams:
			if int(value)+count > len(k.ASCII) {
				return keys
			}
			g.text = k.ASCII[value : int(value)+count]
		}
		keys = append(keys, g)
	}
	return keys
}
