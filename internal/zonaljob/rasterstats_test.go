package zonaljob

import (
	"testing"

	"leat/internal/pytest"
	"leat/internal/zonal"
)

// windowed are the statistics of each zone by the rules of rasterstats: rasterio rasterizes the
// zone in its window, and NumPy does the rest. NaN is invalid. Of values with equal counts, the
// least is majority or minority. rasterstats itself counts pixels outside the raster as nodata too,
// and gives no number of different values where there is none.
const windowed = `
import json, sys
import numpy as np, rasterio, rasterio.features, rasterio.windows
dir, touched = json.load(sys.stdin)
rasters = []
for name, scale in (("a", 1), ("f", 2)):
    with rasterio.open(dir + "/" + name + ".tif") as d:
        v, transform = d.read(1), d.transform
    rasters.append((v.astype("f8") * scale, v != 0 if name == "a" else ~np.isnan(v)))
rows = []
for feature in json.load(open(dir + "/z.geojson"))["features"]:
    x, y = np.array(feature["geometry"]["coordinates"][0]).T
    (c0, r0), (c1, r1) = ~transform * (x.min(), y.max()), ~transform * (x.max(), y.min())
    c0, r0, c1, r1 = int(np.floor(c0)), int(np.floor(r0)), int(np.ceil(c1)), int(np.ceil(r1))
    inside = rasterio.features.rasterize([feature["geometry"]], out_shape=(r1 - r0, c1 - c0), fill=0, default_value=1,
        transform=rasterio.windows.transform(rasterio.windows.Window(c0, r0, c1 - c0, r1 - r0), transform),
        all_touched=touched, dtype="uint8") == 1
    row = [feature["properties"]["key"]]
    for v, valid in rasters:
        height, width = v.shape
        part = np.s_[max(r0, 0):max(min(r1, height), 0), max(c0, 0):max(min(c1, width), 0)]
        at = np.s_[part[0].start - r0:part[0].stop - r0, part[1].start - c0:part[1].stop - c0]
        within = inside[at] if v[part].size else np.zeros(v[part].shape, bool)
        x = v[part][within & valid[part]]
        row += [len(x), int((within & ~valid[part]).sum())]
        if not len(x):
            row += [None] * 10 + [0]
            continue
        values, counts = np.unique(x, return_counts=True)
        row += [x.sum(), x.mean(), x.std(), x.min(), x.max(), x.max() - x.min(), np.median(x), np.percentile(x, 90),
                values[counts.argmax()], values[counts.argmin()], len(values)]
    rows.append([float(v) if v is not None else None for v in row])
json.dump(rows, sys.stdout)
`

func TestZonalFollowsRasterstats(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 260, 210)
	makeZones(t, dir, 150)
	for rule, touched := range map[zonal.Rule]bool{zonal.ByCentre: false, zonal.ByTouch: true} {
		if testing.Short() && touched {
			continue
		}
		var want [][]*float64
		pytest.Run(t, []string{"numpy", "rasterio"}, windowed, []any{dir, touched}, &want)
		job, err := testJob(dir, "count,nodata,sum,mean,std,min,max,range,median,p90,mode,minority,variety", rule)
		if err != nil {
			t.Fatal(err)
		}
		if zones, values := compareZones(t, runJob(t, job), want, 1e-12); values < zones*15 {
			t.Errorf("only %d values of %d zones", values, zones)
		}
	}
}
