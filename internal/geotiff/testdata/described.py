#!/usr/bin/env python3
"""Writes TIFFs that say much about themselves. Usage: described.py FOLDER; golden.py then tells what GDAL reads."""
import os
import sys

import numpy as np
from osgeo import gdal, osr

gdal.UseExceptions()
gdal.PushErrorHandler("CPLQuietErrorHandler")
folder = sys.argv[1]


def make(name, bands=1, kind=gdal.GDT_Byte, options=(), size=(23, 17), more=lambda ds: None):
    path = os.path.join(folder, name)
    ds = gdal.GetDriverByName("GTiff").Create(path, size[0], size[1], bands, kind, list(options))
    for i in range(bands):
        a = np.add.outer(np.arange(size[1]), np.arange(size[0])) * (i + 1) % 120
        ds.GetRasterBand(i + 1).WriteArray(a)
    more(ds)
    ds = None
    return path


def srs(code):
    s = osr.SpatialReference()
    s.ImportFromEPSG(code)
    return s


def geo(code, transform, point=False):
    def f(ds):
        ds.SetSpatialRef(srs(code))
        ds.SetGeoTransform(transform)
        if point:
            ds.SetMetadataItem("AREA_OR_POINT", "Point")
    return f


north_up, rotated = (500000, 30, 0, 4600000, 0, -30), (500000, 25.5, 3.25, 4600000, 4.125, -28.875)
south_up, odd = (-180.1, 0.1, 0, -90.3, 0, 0.1), (0.1, 1 / 3, 0, 0.7, 0, -1 / 7)
for k, (code, t) in enumerate([(32631, north_up), (32631, rotated), (4326, south_up), (3857, odd), (4326, (10.05, 0.1, 0, 60.05, 0, -0.1)), (3035, north_up), (4258, odd), (27700, rotated)]):
    make("geo%d.tif" % k, more=geo(code, t))
    make("point%d.tif" % k, more=geo(code, t, True))


def custom(ds):
    s = osr.SpatialReference()
    s.ImportFromProj4("+proj=laea +lat_0=10 +lon_0=20 +x_0=1000 +y_0=2000 +ellps=GRS80 +units=m")
    ds.SetSpatialRef(s)


make("custom.tif", more=custom)
for k, (kind, nodata) in enumerate([(gdal.GDT_Byte, 255), (gdal.GDT_Byte, 300), (gdal.GDT_Byte, 1.5), (gdal.GDT_Int16, -32768), (gdal.GDT_UInt16, -1), (gdal.GDT_Float32, float("nan")),
                                   (gdal.GDT_Float32, -3.4028234663852886e38), (gdal.GDT_Float32, 1e-3), (gdal.GDT_Float64, -1.7976931348623157e308), (gdal.GDT_Float64, float("inf")),
                                   (gdal.GDT_Float32, -9999), (gdal.GDT_Float64, 0.1), (gdal.GDT_CFloat32, 5)]):
    def f(ds):
        ds.GetRasterBand(1).SetNoDataValue(nodata)
    make("nodata%d.tif" % k, kind=kind, more=f)


def int64(ds):
    ds.GetRasterBand(1).SetNoDataValue(-9223372036854775807)


def uint64(ds):
    ds.GetRasterBand(1).SetNoDataValue(18446744073709551615)


make("int64.tif", kind=gdal.GDT_Int64, more=int64)
make("uint64.tif", kind=gdal.GDT_UInt64, more=uint64)


def told(ds):
    for i in range(ds.RasterCount):
        b = ds.GetRasterBand(i + 1)
        b.SetDescription("band <%d> & \"more\" of it's kind é" % i)
        b.SetScale(0.1 * (i + 1))
        b.SetOffset(-i / 3)
        b.SetUnitType("W/m²" if i else "K")
        b.SetMetadataItem("WAVELENGTH", "%d nm" % (400 + 100 * i))
        b.ComputeStatistics(False)
    ds.SetMetadata({"A": "1", "B": "x < y & z > \"w\" 'v'", "SPACES": "  two  ", "LINES": "a\nb", "ESCAPED": "&amp; &lt;"})
    ds.SetMetadata({"K": "V"}, "MINE")
    ds.SetMetadataItem("TIFFTAG_SOFTWARE", "GDAL writes")
    ds.SetMetadataItem("TIFFTAG_IMAGEDESCRIPTION", "an image")


make("told.tif", bands=3, kind=gdal.GDT_UInt16, more=told)
make("told_planes.tif", bands=3, kind=gdal.GDT_Float32, options=["INTERLEAVE=BAND"], more=told)


def table(n):
    def f(ds):
        ct = gdal.ColorTable()
        for i in range(n):
            ct.SetColorEntry(i, (i * 7 % 256, i * 3 % 256, 255 - i % 256, 255))
        ds.GetRasterBand(1).SetColorTable(ct)
    return f


make("palette.tif", more=table(256))
make("palette_few.tif", more=table(5))
make("palette_16bit.tif", kind=gdal.GDT_UInt16, more=table(300))
make("palette_4bit.tif", options=["NBITS=4"], more=table(16))


def table_nodata(ds):
    table(256)(ds)
    ds.GetRasterBand(1).SetNoDataValue(3)


make("palette_nodata.tif", more=table_nodata)
make("miniswhite.tif", options=["PHOTOMETRIC=MINISWHITE"])
make("miniswhite_1bit.tif", options=["PHOTOMETRIC=MINISWHITE", "NBITS=1"])
make("miniswhite_16bit.tif", kind=gdal.GDT_UInt16, options=["PHOTOMETRIC=MINISWHITE"])
make("onebit.tif", options=["NBITS=1"])
make("rgb.tif", bands=3, options=["PHOTOMETRIC=RGB"])
make("rgba.tif", bands=4, options=["PHOTOMETRIC=RGB", "ALPHA=YES"])
make("rgba_premultiplied.tif", bands=4, options=["PHOTOMETRIC=RGB", "ALPHA=PREMULTIPLIED"])
make("gray_alpha.tif", bands=2, options=["ALPHA=YES"])
make("five.tif", bands=5, options=["ALPHA=NO"])


def order(ds):
    for i, c in enumerate((gdal.GCI_BlueBand, gdal.GCI_GreenBand, gdal.GCI_RedBand, gdal.GCI_Undefined)):
        ds.GetRasterBand(i + 1).SetColorInterpretation(c)


make("order.tif", bands=4, kind=gdal.GDT_UInt16, more=order)

# What is said beside the file.
path = make("pam.tif", bands=2, kind=gdal.GDT_Int16, more=geo(32631, north_up))
ds = gdal.Open(path)
ds.GetRasterBand(2).SetDescription("beside")
ds.GetRasterBand(1).SetNoDataValue(-5)
ds.GetRasterBand(1).SetScale(0.5)
ds.GetRasterBand(2).SetUnitType("m")
ds.GetRasterBand(2).ComputeStatistics(False)
ds.GetRasterBand(1).GetHistogram(buckets=4)
ds.SetMetadataItem("FROM", "beside <it>")
ds.SetMetadataItem("X", "Y", "OTHER")
ds = None
path = make("pam_geo.tif")
ds = gdal.Open(path)
ds.SetGeoTransform((1.5, 2, 0, 3.5, 0, -4))
ds.SetSpatialRef(srs(32632))
ds = None
make("world.tif", options=["TFW=YES", "PROFILE=BASELINE"], more=lambda ds: ds.SetGeoTransform(rotated))
os.remove(os.path.join(folder, "world.tif.aux.xml")) if os.path.exists(os.path.join(folder, "world.tif.aux.xml")) else None
