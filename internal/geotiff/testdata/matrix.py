#!/usr/bin/env python3
"""Writes many small TIFFs through GDAL and, beside each, the pixels that GDAL reads from it.

Usage: matrix.py FOLDER SEED. Prints one JSON line per file: name, type of the pixels, bands, rows, columns.
FILE.raw holds the pixels (bands, rows, columns); FILE.mask, where there is one, the mask; FILE.ovrN.raw the overviews.
"""
import json
import os
import random
import sys

import numpy as np
from osgeo import gdal

gdal.UseExceptions()
gdal.PushErrorHandler("CPLQuietErrorHandler")
folder, seed = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(seed)
pick = random.Random(seed)

TYPES = {
    "uint8": (gdal.GDT_Byte, []), "int8": (gdal.GDT_Byte, ["PIXELTYPE=SIGNEDBYTE"]),
    "uint16": (gdal.GDT_UInt16, []), "int16": (gdal.GDT_Int16, []),
    "uint32": (gdal.GDT_UInt32, []), "int32": (gdal.GDT_Int32, []),
    "uint64": (gdal.GDT_UInt64, []), "int64": (gdal.GDT_Int64, []),
    "float16": (gdal.GDT_Float32, ["NBITS=16"]), "float32": (gdal.GDT_Float32, []), "float64": (gdal.GDT_Float64, []),
    "cint16": (gdal.GDT_CInt16, []), "cint32": (gdal.GDT_CInt32, []),
    "cfloat32": (gdal.GDT_CFloat32, []), "cfloat64": (gdal.GDT_CFloat64, []),
    "uint1": (gdal.GDT_Byte, ["NBITS=1"]), "uint2": (gdal.GDT_Byte, ["NBITS=2"]), "uint4": (gdal.GDT_Byte, ["NBITS=4"]),
    "uint5": (gdal.GDT_Byte, ["NBITS=5"]), "uint12": (gdal.GDT_UInt16, ["NBITS=12"]), "uint10": (gdal.GDT_UInt16, ["NBITS=10"]),
}


def pixels(kind, shape):
    """Smooth values with runs and noise, so that every coder finds something to do."""
    base = np.add.outer(np.arange(shape[1]), np.arange(shape[2]))[None] * rng.integers(1, 9) + rng.integers(0, 3, shape)
    base = np.where(rng.random(shape) < 0.02, rng.integers(0, 1 << 30, shape), base)
    if kind.startswith("uint") and kind[4:] in ("1", "2", "4", "5", "10", "12"):
        return (base & ((1 << int(kind[4:])) - 1)).astype(np.uint8 if int(kind[4:]) <= 8 else np.uint16)
    if kind == "float16":
        return (base / 7 % 1000).astype(np.float16).astype(np.float32)
    if kind.startswith("cfloat"):
        return (base / 7 + 1j * (base % 91) / 3).astype({"cfloat32": np.complex64, "cfloat64": np.complex128}[kind])
    if kind.startswith("cint"):
        return (base % 30000 - 15000 + 1j * (base % 91)).astype(np.complex128)
    if kind.startswith("float"):
        v = (base / 7 - 1e3).astype(kind)
        v[rng.random(shape) < 0.01] = np.nan
        return v
    info = np.iinfo(kind)
    if info.bits == 64:
        base = base * (1 << 31) + rng.integers(0, 1 << 31, shape)
    return (base.astype(np.int64) - (100 if info.min < 0 else 0)).astype(kind)


def dump(name, a):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(np.ascontiguousarray(a).tobytes())


def as_pixels(kind, a):
    if kind == "int8":
        return a.view(np.int8)
    if kind == "cint16":
        return a.astype(np.complex64)
    if kind == "cint32":
        return a.astype(np.complex128)
    return a


def write(n, kind, compress, predictor, interleave, big, bigtiff, sparse=False):
    t, options = TYPES[kind]
    bands = pick.choice([1, 1, 2, 3, 4, 5])
    shape = (bands, pick.choice([1, 7, 33, 70, 101]), pick.choice([1, 5, 17, 64, 130]))
    options = options + ["COMPRESS=" + compress, "INTERLEAVE=" + interleave]
    if predictor != 1:
        options.append("PREDICTOR=%d" % predictor)
    if big:
        options.append("ENDIANNESS=BIG")
    if bigtiff:
        options.append("BIGTIFF=YES")
    if sparse:
        options.append("SPARSE_OK=TRUE")
    if pick.random() < 0.5:
        options += ["TILED=YES", "BLOCKXSIZE=%d" % pick.choice([16, 32, 64]), "BLOCKYSIZE=%d" % pick.choice([16, 32, 48])]
    else:
        options.append("BLOCKYSIZE=%d" % pick.choice([1, 3, 16, 1000]))
    name = "f%04d.tif" % n
    path = os.path.join(folder, name)
    a = pixels(kind, shape)
    ds = gdal.GetDriverByName("GTiff").Create(path, shape[2], shape[1], bands, t, options)
    nodata = None
    if kind in ("uint8", "int16", "float32", "uint16") and pick.random() < 0.5:
        nodata = {"uint8": 300 if sparse else 7, "int16": -9, "float32": float("nan"), "uint16": -9999}[kind]
        ds.GetRasterBand(1).SetNoDataValue(nodata)
    if sparse:
        h, w = max(1, shape[1] // 2), max(1, shape[2] // 2)
        ds.WriteArray(a[:, :h, :w].view(np.uint8) if kind == "int8" else a[:, :h, :w])
    else:
        ds.WriteArray(a.view(np.uint8) if kind == "int8" else a)
    extra = {}
    ds = None
    if not sparse and pick.random() < 0.25 and min(shape[1:]) > 4:
        external = pick.random() < 0.4
        gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "NO" if external else "YES")
        if pick.random() < 0.6:
            ds = gdal.Open(path, gdal.GA_Update)
            ds.CreateMaskBand(gdal.GMF_PER_DATASET)
            m = ds.GetRasterBand(1).GetMaskBand()
            m.WriteArray((rng.random(shape[1:]) < 0.7).astype(np.uint8) * 255)
            m = ds = None
        if bands * shape[1] * shape[2] and t not in (gdal.GDT_CInt16, gdal.GDT_CInt32):
            try:
                ds = gdal.Open(path, gdal.GA_ReadOnly if external else gdal.GA_Update)
                ds.BuildOverviews("NEAREST", [2, 4])
            except RuntimeError:
                pass
            ds = None
    ds = gdal.Open(path)
    dump(name + ".raw", as_pixels(kind, ds.ReadAsArray().reshape(shape)))
    b = ds.GetRasterBand(1)
    masked = b.GetMaskFlags() == gdal.GMF_PER_DATASET
    if masked:
        dump(name + ".mask", b.GetMaskBand().ReadAsArray())
    overviews = []
    for i in range(b.GetOverviewCount()):
        o = b.GetOverview(i)
        overviews.append([o.YSize, o.XSize])
        dump(name + ".ovr%d.raw" % i, as_pixels(kind, np.stack([ds.GetRasterBand(k + 1).GetOverview(i).ReadAsArray() for k in range(bands)])))
        if masked:
            dump(name + ".ovr%d.mask" % i, o.GetMaskBand().ReadAsArray())
    print(json.dumps({"name": name, "kind": kind, "shape": shape, "mask": masked, "overviews": overviews, "options": " ".join(options)}))


n = 0
codecs = [c for c in ("NONE", "DEFLATE", "LZW", "ZSTD", "PACKBITS") if c in gdal.GetDriverByName("GTiff").GetMetadataItem("DMD_CREATIONOPTIONLIST")]
for kind in TYPES:
    packed = "NBITS" in " ".join(TYPES[kind][1]) and kind != "float16"
    for compress in codecs:
        predictors = [1]
        if compress in ("DEFLATE", "LZW", "ZSTD") and not packed:
            if kind not in ("cfloat32", "cfloat64", "cint16", "cint32"):
                predictors.append(2)
            if kind.startswith("float"):
                predictors.append(3)
        for predictor in predictors:
            for interleave in ("BAND", "PIXEL"):
                for big in (False, True):
                    try:
                        write(n, kind, compress, predictor, interleave, big, pick.random() < 0.3)
                    except RuntimeError as e:
                        print("%s %s %s: %s" % (kind, compress, predictor, e), file=sys.stderr)
                    n += 1
    if not packed:
        write(n, kind, pick.choice(codecs), 1, pick.choice(["BAND", "PIXEL"]), pick.random() < 0.5, pick.random() < 0.5, sparse=True)
        n += 1
