#!/usr/bin/env python3
"""Reads each TIFF that is named. Writes FILE.raw, its pixels, or FILE.error where GDAL can't read it, and FILE.grid, its
geotransform, where it has one."""
import json
import sys

from osgeo import gdal

gdal.UseExceptions()
gdal.PushErrorHandler("CPLQuietErrorHandler")
for path in sys.argv[1:]:
    try:
        ds = gdal.Open(path)
        transform = ds.GetGeoTransform(can_return_null=True)
        if transform:
            json.dump(transform, open(path + ".grid", "w"))
        pixels = ds.ReadAsArray().tobytes()
        open(path + ".raw", "wb").write(pixels)
    except RuntimeError as e:
        open(path + ".error", "w").write(str(e))
