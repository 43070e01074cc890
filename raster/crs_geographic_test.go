package raster

import "testing"

func TestModelOfCRS(t *testing.T) {
	const geodetic = `GEODCRS["WGS 84",DATUM["World Geodetic System 1984",ELLIPSOID["WGS 84",6378137,298.257223563]],`
	const ellipsoidal = geodetic + `CS[ellipsoidal,2],AXIS["geodetic latitude (Lat)",north],AXIS["geodetic longitude (Lon)",east]]`
	const projected = `PROJCRS["UTM",BASEGEODCRS["WGS 84"],CONVERSION["UTM zone 31N"],CS[Cartesian,2]]`
	keys := func(model uint16) *GeoKeys { return &GeoKeys{Directory: []uint16{1, 1, 0, 1, 1024, 0, 1, model}} }
	for _, c := range []struct {
		crs  CRS
		want uint16
	}{
		{CRS{Keys: keys(1)}, modelProjected},
		{CRS{Keys: keys(2), WKT: projected}, modelGeographic},
		{CRS{Keys: keys(3)}, 0},
		{CRS{Keys: keys(32767), WKT: ellipsoidal}, modelGeographic},
		{CRS{WKT: `GEOGCS["a",UNIT["degree",0.017]]`}, modelGeographic},
		{CRS{WKT: "geogcrs[\n \"PROJCRS[\"]"}, modelGeographic},
		{CRS{WKT: ellipsoidal}, modelGeographic},
		{CRS{WKT: `GEODETICCRS["a",CS[ellipsoidal,3]]`}, modelGeographic},
		{CRS{WKT: geodetic + `CS[Cartesian,3]]`}, 0},
		{CRS{WKT: `GEODCRS["turned",BASEGEODCRS["a"],DERIVINGCONVERSION["b"],CS[ellipsoidal,2]]`}, modelGeographic},
		{CRS{WKT: `COMPOUNDCRS["a, b",` + ellipsoidal + `,VERTCRS["h",CS[vertical,1]]]`}, modelGeographic},
		{CRS{WKT: `COMPOUNDCRS["a",` + projected + `,VERTCRS["h",CS[vertical,1]]]`}, modelProjected},
		{CRS{WKT: "BOUNDCRS[ SOURCECRS[\n" + ellipsoidal + `],TARGETCRS[` + projected + `]]`}, modelGeographic},
		{CRS{WKT: `BOUNDCRS[SOURCECRS[]]`}, 0},
		{CRS{WKT: projected}, modelProjected},
		{CRS{WKT: `PROJCS["a",GEOGCS["b"]],VERTCS["c"]`}, modelProjected},
		{CRS{WKT: `GEOGCS["b"],VERTCS["c"]`}, modelGeographic},
		{CRS{WKT: `ENGCRS["Arbitrary",EDATUM[""],CS[Cartesian,2],LENGTHUNIT["metre",1]]`}, 0},
		{CRS{WKT: `LOCAL_CS["a",UNIT["metre",1]]`}, 0},
		{CRS{Code: "EPSG:4326"}, 0},
		{CRS{}, 0},
	} {
		if got := c.crs.model(); got != c.want || c.crs.Geographic() != (c.want == modelGeographic) ||
			c.crs.Projected() != (c.want == modelProjected) {
			t.Errorf("%+v: model %d, expected %d", c.crs, got, c.want)
		}
	}
}
