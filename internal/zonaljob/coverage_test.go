package zonaljob

import (
	"testing"

	"leat/internal/pytest"
	"leat/internal/zonal"
)

// covered are the statistics of each zone by the shares of its pixels, as exactextract defines
// them: OGR intersects the zone with each pixel, and NumPy does the rest.
const covered = `
import json, sys
import numpy as np
from osgeo import gdal, ogr
gdal.UseExceptions()
dir = json.load(sys.stdin)
rasters = []
for name, scale in (("a", 1), ("f", 2)):
    d = gdal.Open(dir + "/" + name + ".tif")
    v = d.ReadAsArray()
    rasters.append((v.astype("f8") * scale, v != 0 if name == "a" else ~np.isnan(v)))
x0, dx, _, y0, _, dy = d.GetGeoTransform()
rows, columns = v.shape
def percentile(v, w, p):
    order = np.lexsort((w, v)) # equal values by weight
    v, w = v[order], w[order]
    at = np.arange(len(v)) * w + (len(v) - 1) * np.concatenate([[0], np.cumsum(w)[:-1]])
    return np.interp(p / 100 * at[-1], at, v)
source = ogr.Open(dir + "/z.geojson")
result = []
for feature in source.GetLayer(0):
    g = feature.geometry()
    if not g.IsValid(): # its edges cross: OGR can't intersect it
        result.append(None)
        continue
    west, east, south, north = g.GetEnvelope()
    share = np.zeros((rows, columns))
    for r in range(max(0, int((north - y0) / dy)), min(rows, int((south - y0) / dy) + 1)):
        for c in range(max(0, int((west - x0) / dx)), min(columns, int((east - x0) / dx) + 1)):
            x, y = x0 + c * dx, y0 + r * dy
            pixel = ogr.CreateGeometryFromWkt("POLYGON((%r %r,%r %r,%r %r,%r %r,%r %r))" % (
                x, y, x + dx, y, x + dx, y + dy, x, y + dy, x, y))
            if g.Intersects(pixel):
                share[r, c] = g.Intersection(pixel).GetArea() / (dx * -dy)
    row = [feature["key"]]
    for v, valid in rasters:
        some = (share > 1e-11) & valid
        x, w = v[some], share[some]
        row += [w.sum(), share[~valid].sum()]
        if len(x):
            mean = (w * x).sum() / w.sum()
            row += [(w * x).sum(), mean, np.sqrt((w * (x - mean) ** 2).sum() / w.sum()), x.min(), x.max(),
                    percentile(x, w, 50), percentile(x, w, 12.5)]
        else:
            row += [None] * 7
    result.append(row)
json.dump(result, sys.stdout)
`

func TestCoverageMatchesNumPy(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: intersects polygons with each pixel")
	}
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 120, 110)
	makeZones(t, dir, 100)
	var want [][]*float64
	pytest.Run(t, []string{"numpy", "osgeo.gdal"}, covered, dir, &want)
	job, err := testJob(dir, "count,nodata,sum,mean,std,min,max,median,p12.5", zonal.ByCoverage)
	if err != nil {
		t.Fatal(err)
	}
	compared, valid := compareZones(t, runJob(t, job), want, 1e-7)
	if compared < 30 || valid < compared*6 {
		t.Errorf("%d zones with %d values", compared, valid)
	}
}
