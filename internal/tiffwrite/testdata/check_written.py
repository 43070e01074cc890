"""Reads the files of a list with GDAL and rasterio and compares them with what they must hold."""
import importlib.util
import json
import math
import os
import sys
import warnings

import numpy as np
import rasterio
from osgeo import gdal

gdal.UseExceptions()
warnings.filterwarnings("ignore")
faults = []


def same(name, what, got, want):
    if got != want:
        faults.append(f"{name}: {what} is {got!r}, not {want!r}")


def as_array(raw, e, level):
    w, h = e["Sizes"][level]
    return np.fromfile(raw, np.dtype(e["Type"])).reshape(e["Bands"], h, w)


def equal(name, what, got, want):
    if want.dtype == np.float16 and got.dtype == np.float32:
        # Half floats are widened by GDAL, which keeps no payload of a NaN.
        want = want.astype(np.float32)
        ok = got.shape == want.shape and np.array_equal(got, want, equal_nan=True)
    else:
        if want.dtype == np.int8 and got.dtype == np.uint8:
            got = got.view(np.int8)
        ok = got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
    if not ok:
        faults.append(f"{name}: {what} differs ({got.dtype} {got.shape})")


def number(text):
    return int(text) if text.lstrip("-").isdigit() else float(text)


def with_gdal(e):
    name = e["Path"]
    gdal.ErrorReset()
    ds = gdal.Open(name)
    same(name, "bands", ds.RasterCount, e["Bands"])
    band = ds.GetRasterBand(1)
    structure = ds.GetMetadata("IMAGE_STRUCTURE")
    same(name, "layout", structure.get("LAYOUT"), "COG")
    same(name, "interleave", structure["INTERLEAVE"], e["Interleave"])
    same(name, "codec", structure.get("COMPRESSION", "NONE"), e["Codec"])
    same(name, "tile", band.GetBlockSize(), e["Tile"])
    with open(name, "rb") as f:
        same(name, "BigTIFF", f.read(4)[2] == 43, e["BigTIFF"])
    for level, raw in enumerate(e["Pixels"]):
        want = as_array(raw, e, level)
        for b in range(e["Bands"]):
            src = ds.GetRasterBand(b + 1)
            same(name, "overviews", src.GetOverviewCount(), len(e["Pixels"]) - 1)
            if level:
                src = src.GetOverview(level - 1)
            equal(name, f"level {level} band {b + 1}", src.ReadAsArray(), want[b])
    if e["Transform"]:
        same(name, "transform", list(ds.GetGeoTransform()), e["Transform"])
        # Without geo keys GDAL does not say which.
        same(name, "AREA_OR_POINT", ds.GetMetadataItem("AREA_OR_POINT") or "Area", e["AreaOrPt"])
    else:
        same(name, "transform", ds.GetGeoTransform(can_return_null=True), None)
    srs = ds.GetSpatialRef()
    same(name, "CRS", int(srs.GetAuthorityCode(None)) if srs and srs.GetAuthorityCode(None) else 0, e["EPSG"])
    if not e["EPSG"] and e["AreaOrPt"] == "Area":
        same(name, "spatial reference", srs and srs.ExportToWkt(), None)
    got = band.GetNoDataValue()
    if e["Nodata"]:
        want = number(e["Nodata"])
        if not (isinstance(want, float) and math.isnan(want) and math.isnan(got)):
            same(name, "nodata", got, want)
        for i in range(band.GetOverviewCount()):
            if band.GetOverview(i).GetNoDataValue() is None:
                faults.append(f"{name}: an overview has no nodata")
    else:
        same(name, "nodata", got, None)
    for k, v in (e["Items"] or {}).items():
        same(name, "item " + k, ds.GetMetadataItem(k), v)
    for d, items in (e["Domains"] or {}).items():
        same(name, "domain " + d, ds.GetMetadata(d), items)
    for i, layer in enumerate(e["Names"] or []):
        b = ds.GetRasterBand(i + 1)
        same(name, "description", b.GetDescription(), layer)
        if e["Colors"][i]:
            same(name, "colour", gdal.GetColorInterpretationName(b.GetColorInterpretation()).lower(), e["Colors"][i])
        same(name, "scale", 1.0 if b.GetScale() is None else b.GetScale(), e["Scales"][i] or 1.0)
        same(name, "offset", b.GetOffset() or 0.0, e["Offsets"][i])
        same(name, "unit", b.GetUnitType(), e["Units"][i])
        same(name, "band items", b.GetMetadata(), e["BandItems"][i] or {})
        stats = e["BandItems"][i] or {}
        if "STATISTICS_MEAN" in stats:
            same(name, "statistics", b.GetStatistics(False, False), [float(stats["STATISTICS_" + k]) for k in ("MINIMUM", "MAXIMUM", "MEAN", "STDDEV")])
    if e["Table"]:
        table = band.GetColorTable()
        same(name, "colour table", [list(table.GetColorEntry(i)) for i in range(len(e["Table"]))], e["Table"])
    if gdal.GetLastErrorMsg():
        faults.append(f"{name}: GDAL says {gdal.GetLastErrorMsg()}")


def with_rasterio(e):
    name = e["Path"]
    for level, raw in enumerate(e["Pixels"]):
        with rasterio.open(name, **({"overview_level": level - 1} if level else {})) as src:
            want = as_array(raw, e, level)
            got = src.read()
            if want.dtype in (np.int64, np.uint64):
                got = got.view(want.dtype)  # rasterio 1.3.5 takes the one for the other
            equal(name, f"rasterio's level {level}", got, want)
            if level == 0 and not e["EPSG"] and e["AreaOrPt"] == "Area":
                same(name, "rasterio's CRS", src.crs, None)
            if level == 0 and e["Transform"]:
                same(name, "rasterio's transform", list(src.transform.to_gdal()), e["Transform"])
                same(name, "rasterio's CRS", src.crs.to_epsg() or 0 if src.crs else 0, e["EPSG"])


def validator():
    """GDAL's own check: a module of newer packages, a file among Debian's examples before."""
    try:
        from osgeo_utils.samples import validate_cloud_optimized_geotiff as v
        return v
    except ImportError:
        pass
    path = "/usr/share/doc/python3-gdal/examples/validate_cloud_optimized_geotiff.py"
    if not os.path.exists(path):
        return None
    spec = importlib.util.spec_from_file_location("validate_cloud_optimized_geotiff", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_validator(e):
    if validate:
        _, errors, _ = validate.validate(e["Path"], full_check=True)
        same(e["Path"], "GDAL's list of COG faults", errors, [])


validate = validator()
files = json.load(open(sys.argv[1]))
for e in files:
    for check in (with_gdal, with_rasterio, with_validator):
        try:
            check(e)
        except Exception as err:
            faults.append(f"{e['Path']}: {check.__name__}: {type(err).__name__}: {err}")
if faults:
    print("\n".join(faults[:40]))
    sys.exit(f"{len(faults)} faults")
print(f"{len(files)} files checked" + ("" if validate else ", but not by GDAL's COG validator, which is not installed"))
