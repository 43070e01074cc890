package georef

import (
	"testing"

	"leat/raster"
)

func TestModelOfCRS(t *testing.T) {
	const geodetic = `GEODCRS["WGS 84",DATUM["World Geodetic System 1984",ELLIPSOID["WGS 84",6378137,298.257223563]],`
	const ellipsoidal = geodetic + `CS[ellipsoidal,2],AXIS["geodetic latitude (Lat)",north],AXIS["geodetic longitude (Lon)",east]]`
	const projected = `PROJCRS["UTM",BASEGEODCRS["WGS 84"],CONVERSION["UTM zone 31N"],CS[Cartesian,2]]`
	keys := func(model uint16) *raster.GeoKeys {
		return &raster.GeoKeys{Directory: []uint16{1, 1, 0, 1, 1024, 0, 1, model}}
	}
	for _, c := range []struct {
		crs  raster.CRS
		want uint16
	}{
		{raster.CRS{Keys: keys(1)}, modelProjected},
		{raster.CRS{Keys: keys(2), WKT: projected}, modelGeographic},
		{raster.CRS{Keys: keys(3)}, 0},
		{raster.CRS{Keys: &raster.GeoKeys{Directory: []uint16{1, 1, 0, 0, 1024, 0, 1, 2}}}, 0}, // none announced
		{raster.CRS{Keys: &raster.GeoKeys{Directory: []uint16{1, 1, 0, 9, 1024, 0, 1, 2}}}, modelGeographic},
		{raster.CRS{Keys: &raster.GeoKeys{Directory: []uint16{1, 1, 0}}, WKT: projected}, modelProjected},
		{raster.CRS{Keys: keys(32767), WKT: ellipsoidal}, modelGeographic},
		{raster.CRS{WKT: `GEOGCS["a",UNIT["degree",0.017]]`}, modelGeographic},
		{raster.CRS{WKT: "geogcrs[\n \"PROJCRS[\"]"}, modelGeographic},
		{raster.CRS{WKT: ellipsoidal}, modelGeographic},
		{raster.CRS{WKT: `GEODETICCRS["a",CS[ellipsoidal,3]]`}, modelGeographic},
		{raster.CRS{WKT: geodetic + `CS[Cartesian,3]]`}, 0},
		{raster.CRS{WKT: `GEODCRS["turned",BASEGEODCRS["a"],DERIVINGCONVERSION["b"],CS[ellipsoidal,2]]`}, modelGeographic},
		{raster.CRS{WKT: `COMPOUNDCRS["a, b",` + ellipsoidal + `,VERTCRS["h",CS[vertical,1]]]`}, modelGeographic},
		{raster.CRS{WKT: `COMPOUNDCRS["a",` + projected + `,VERTCRS["h",CS[vertical,1]]]`}, modelProjected},
		{raster.CRS{WKT: "BOUNDCRS[ SOURCECRS[\n" + ellipsoidal + `],TARGETCRS[` + projected + `]]`}, modelGeographic},
		{raster.CRS{WKT: `BOUNDCRS[SOURCECRS[]]`}, 0},
		{raster.CRS{WKT: projected}, modelProjected},
		{raster.CRS{WKT: `PROJCS["a",GEOGCS["b"]],VERTCS["c"]`}, modelProjected},
		{raster.CRS{WKT: `GEOGCS["b"],VERTCS["c"]`}, modelGeographic},
		{raster.CRS{WKT: `ENGCRS["Arbitrary",EDATUM[""],CS[Cartesian,2],LENGTHUNIT["metre",1]]`}, 0},
		{raster.CRS{WKT: `LOCAL_CS["a",UNIT["metre",1]]`}, 0},
		{raster.CRS{Code: "EPSG:4326"}, 0},
		{raster.CRS{}, 0},
	} {
		if got := modelOf(c.crs); got != c.want || Geographic(c.crs) != (c.want == modelGeographic) ||
			Projected(c.crs) != (c.want == modelProjected) {
			t.Errorf("%+v: model %d, expected %d", c.crs, got, c.want)
		}
	}
}
