"""Tells what GDAL reads of files: ["path", ...] to [{...}]; the raw pixels go beside them."""
import json
import sys

from osgeo import gdal

gdal.UseExceptions()
out = []
for path in json.load(sys.stdin):
    ds = gdal.Open(path)
    a = ds.ReadAsArray()
    a.tofile(path + ".raw" if not path.endswith("/") else path[:-1] + ".raw")
    sr, gt = ds.GetSpatialRef(), ds.GetGeoTransform(can_return_null=True)
    bands = []
    for n in range(ds.RasterCount):
        b = ds.GetRasterBand(n + 1)
        ct = b.GetColorTable()
        h = b.GetDefaultHistogram(force=0) if n == 0 else None
        bands.append({
            "type": gdal.GetDataTypeName(b.DataType), "nodata": None if b.GetNoDataValue() is None else repr(b.GetNoDataValue()),
            "name": b.GetDescription(), "scale": b.GetScale(), "offset": b.GetOffset(), "unit": b.GetUnitType(),
            "color": gdal.GetColorInterpretationName(b.GetColorInterpretation()).lower(),
            "colors": [list(ct.GetColorEntry(i)) for i in range(ct.GetCount())] if ct else None,
            "items": b.GetMetadata(), "overviews": [[b.GetOverview(i).XSize, b.GetOverview(i).YSize] for i in range(b.GetOverviewCount())],
            "histogram": {"low": h[0], "high": h[1], "counts": h[3]} if h else None})
    out.append({"driver": ds.GetDriver().ShortName, "dtype": str(a.dtype), "code": sr.GetAuthorityCode(None) if sr else "", "name": sr.GetName() if sr else "",
                "transform": list(gt) if gt else None, "items": ds.GetMetadata(), "bands": bands, "structure": ds.GetMetadata("IMAGE_STRUCTURE")})
json.dump(out, sys.stdout)
