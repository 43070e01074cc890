"""Writes a raster in each format that GDAL can write, and tells what GDAL reads of it: {"dir": folder} to [{...}]."""
import json
import os
import sys

import numpy
from osgeo import gdal, osr

gdal.UseExceptions()
folder = json.load(sys.stdin)["dir"]
rng = numpy.random.default_rng(1)
srs = osr.SpatialReference()
srs.ImportFromEPSG(32631)
files = []


def source(dtype, bands, height=75, width=91, nodata=None, geo=True, code=None):
    code = code or {"u1": gdal.GDT_Byte, "u2": gdal.GDT_UInt16, "i2": gdal.GDT_Int16, "i4": gdal.GDT_Int32, "u4": gdal.GDT_UInt32,
                    "f4": gdal.GDT_Float32, "f8": gdal.GDT_Float64, "i8": gdal.GDT_Int64, "u8": gdal.GDT_UInt64,
                    "c8": gdal.GDT_CFloat32, "c16": gdal.GDT_CFloat64}[dtype]
    ds = gdal.GetDriverByName("MEM").Create("", width, height, bands, code)
    if geo:
        ds.SetGeoTransform((500000, 10, 0, 5200000, 0, -10))
        ds.SetSpatialRef(srs)
    for b in range(bands):
        if dtype[0] in "ui":
            i = numpy.iinfo(dtype)
            a = rng.integers(max(i.min, -(1 << 60)), min(i.max, 1 << 60), (height, width), dtype="i8").astype(dtype)
        else:
            a = rng.normal(size=(height, width)).astype(dtype)
            if dtype[0] == "c":
                a = a + 1j * rng.normal(size=(height, width)).astype(dtype)
        ds.GetRasterBand(b + 1).WriteArray(a)
        if nodata is not None:
            ds.GetRasterBand(b + 1).SetNoDataValue(nodata)
    return ds


def add(name, driver, ds, options=(), path=None):
    if gdal.GetDriverByName(driver) is None:
        return
    path = os.path.join(folder, path or name)
    try:
        gdal.GetDriverByName(driver).CreateCopy(path, ds, options=list(options)).FlushCache()
    except RuntimeError as e:
        print(name, e, file=sys.stderr)
        return
    describe(name, path)


def describe(name, path):
    ds = gdal.Open(path)
    types = {gdal.GetDataTypeName(ds.GetRasterBand(b + 1).DataType) for b in range(ds.RasterCount)}
    a = ds.ReadAsArray()
    a = a.reshape(ds.RasterCount, ds.RasterYSize, ds.RasterXSize)
    raw = os.path.join(folder, "raw-%d" % len(files))
    a = {"complex64": a, "complex128": a}.get(str(a.dtype), a)
    a.tofile(raw)
    sr = ds.GetSpatialRef()
    gt = ds.GetGeoTransform(can_return_null=True)
    band = ds.GetRasterBand(1)
    files.append({
        "name": name, "path": path, "raw": raw, "type": str(a.dtype), "shape": list(a.shape), "driver": ds.GetDriver().ShortName,
        "transform": list(gt) if gt else None,
        "code": sr.GetAuthorityName(None) + ":" + sr.GetAuthorityCode(None) if sr and sr.GetAuthorityCode(None) else "",
        "wkt": sr.ExportToWkt(["FORMAT=WKT2_2015"]) if sr else "",
        "nodata": None if band.GetNoDataValue() is None else repr(band.GetNoDataValue()),
        "block": band.GetBlockSize(), "overviews": [[band.GetOverview(i).XSize, band.GetOverview(i).YSize] for i in range(band.GetOverviewCount())],
        "color": [gdal.GetColorInterpretationName(ds.GetRasterBand(b + 1).GetColorInterpretation()).lower() for b in range(ds.RasterCount)],
        "masked": bool(band.GetMaskFlags() & 2) and not band.GetMaskFlags() & 4,
        "stored": types.pop() if len(types) == 1 else "",
    })
    if files[-1]["masked"]:
        band.GetMaskBand().ReadAsArray().tofile(raw + ".mask")


gdal.GetDriverByName("GTiff").CreateCopy(os.path.join(folder, "vrt.tif"), source("u2", 3, nodata=7)).FlushCache()
add("a.vrt", "VRT", gdal.Open(os.path.join(folder, "vrt.tif")))
add("a.png", "PNG", source("u1", 4))
add("b.png", "PNG", source("u2", 1))
add("a.img", "HFA", source("u2", 2, 300, 200, nodata=7), ["COMPRESSED=YES"])
add("b.img", "HFA", source("f4", 1, nodata=-9999))
add("a.nc", "netCDF", source("f4", 1, nodata=-9999))
add("a.asc", "AAIGrid", source("i4", 1, nodata=-9999))
add("a.jpg", "JPEG", source("u1", 3))
add("a.jp2", "JP2OpenJPEG", source("u2", 1, 600, 500), ["REVERSIBLE=YES", "QUALITY=100"])
add("a.zarr", "Zarr", source("f8", 1))
add("a.envi", "ENVI", source("i2", 3), ["INTERLEAVE=BIL"])
add("c.envi", "ENVI", source("c8", 2))
add("a.gpkg", "GPKG", source("u1", 4, 300, 300))
add("jpeg.tif", "GTiff", source("u1", 3, 300, 300), ["COMPRESS=JPEG", "PHOTOMETRIC=YCBCR", "TILED=YES"])
add("lerc.tif", "GTiff", source("f4", 2, 300, 300, nodata=0.1), ["COMPRESS=LERC", "MAX_Z_ERROR=0"])
add("webp.tif", "GTiff", source("u1", 3), ["COMPRESS=WEBP", "WEBP_LOSSLESS=YES"])
for t in "u4", "f8", "i8", "u8", "c8", "c16":
    add(t + ".tif", "GTiff", source(t, 2))
add("signed.tif", "GTiff", source("u1", 1), ["PIXELTYPE=SIGNEDBYTE"])
add("nbits.tif", "GTiff", source("u1", 1, geo=False), ["NBITS=3"])
add("plain.tif", "GTiff", source("u1", 1, geo=False))
add("cint.tif", "GTiff", source("c8", 1, code=gdal.GDT_CInt16))
add("a.bmp", "BMP", source("u1", 1, geo=False))
add("a.grb2", "GRIB", source("f4", 1))
add("a.rst", "RST", source("i2", 1))
add("a.sdat", "SAGA", source("f4", 1, nodata=-9999))

point = source("i2", 1)
point.SetMetadataItem("AREA_OR_POINT", "Point")
add("point.tif", "GTiff", point)
rotated = source("i2", 1)
rotated.SetGeoTransform((500000, 10, 3, 5200000, 4, -10))
add("rotated.img", "ENVI", rotated)

ds = source("u1", 1, 512, 512)
path = os.path.join(folder, "overviews.img")
ds = gdal.GetDriverByName("HFA").CreateCopy(path, ds)
ds.BuildOverviews("AVERAGE", [2, 4, 8])
ds = None
describe("overviews.img", path)
path = os.path.join(folder, "masked.tif")
gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
ds = gdal.GetDriverByName("GTiff").CreateCopy(path, source("u1", 3), options=["COMPRESS=JPEG", "PHOTOMETRIC=YCBCR"])
ds.CreateMaskBand(gdal.GMF_PER_DATASET)
ds.GetRasterBand(1).GetMaskBand().WriteArray((rng.integers(0, 2, (75, 91)) * 255).astype("u1"))
ds = None
describe("masked.tif", path)
json.dump(files, sys.stdout)
