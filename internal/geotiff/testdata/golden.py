#!/usr/bin/env python3
"""Writes golden.json: what GDAL says of every TIFF of the shared data.

Run from the repository's root (Debian 12, python3-gdal 3.6.2):
    /usr/bin/python3 internal/geotiff/testdata/golden.py ../shared/data > internal/geotiff/testdata/golden.json
"""
import json
import os
import sys

from osgeo import gdal

gdal.UseExceptions()


def bands_of(get, count):
    return [get(i + 1).Checksum() for i in range(count)]


def describe(path):
    ds = gdal.Open(path)
    b1 = ds.GetRasterBand(1)
    gt = ds.GetGeoTransform(can_return_null=True)
    out = {
        "size": [ds.RasterXSize, ds.RasterYSize],
        "transform": gt,
        "metadata": ds.GetMetadata(),
        "compression": ds.GetMetadata("IMAGE_STRUCTURE").get("COMPRESSION", ""),
        "interleave": ds.GetMetadata("IMAGE_STRUCTURE").get("INTERLEAVE", "").lower(),
        "bands": [],
    }
    srs = ds.GetSpatialRef()
    if srs is not None:
        code = srs.GetAuthorityCode(None)
        out["epsg"] = int(code) if code else 0
    try:
        for i in range(ds.RasterCount):
            b = ds.GetRasterBand(i + 1)
            ct = b.GetColorTable()
            nd = b.GetNoDataValue()
            out["bands"].append({
                "type": gdal.GetDataTypeName(b.DataType),
                "checksum": b.Checksum(),
                "nodata": None if nd is None else repr(nd),
                "name": b.GetDescription(),
                "scale": b.GetScale(),
                "offset": b.GetOffset(),
                "unit": b.GetUnitType(),
                "color": gdal.GetColorInterpretationName(b.GetColorInterpretation()).lower(),
                "colors": None if ct is None else [list(ct.GetColorEntry(k)) for k in range(ct.GetCount())],
                "metadata": b.GetMetadata(),
            })
        masked = lambda b: b.GetMaskFlags() == gdal.GMF_PER_DATASET
        out["mask"] = b1.GetMaskBand().Checksum() if masked(b1) else None
        out["overviews"] = []
        for i in range(b1.GetOverviewCount()):
            o = b1.GetOverview(i)
            out["overviews"].append({
                "size": [o.XSize, o.YSize],
                "checksums": bands_of(lambda n: ds.GetRasterBand(n).GetOverview(i), ds.RasterCount),
                "mask": o.GetMaskBand().Checksum() if masked(o) else None,
            })
    except RuntimeError as e:
        out["error"] = str(e)
    return out


root = sys.argv[1]
files = {}
for folder, _, names in sorted(os.walk(root)):
    for name in sorted(names):
        path = os.path.join(folder, name)
        with open(path, "rb") as f:
            tiff = f.read(4) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
        if tiff:
            files[os.path.relpath(path, root)] = describe(path)
json.dump({"gdal": gdal.VersionInfo("RELEASE_NAME"), "files": files}, sys.stdout, indent=None, separators=(",", ":"), sort_keys=True)
sys.stdout.write("\n")
