"""lon, lat and pixel_area in NumPy and pyproj: reference.py says how."""
import functools

import numpy as np

NAMES = ("lon", "lat", "pixel_area")
AXIS = 6378137.0  # of the WGS 84 ellipsoid


@functools.lru_cache(None)
def transformer(crs):
    from pyproj import Transformer

    return Transformer.from_crs(crs, "EPSG:4326", always_xy=True)


@functools.lru_cache(None)
def cylinder():
    """Lambert's cylindrical equal-area projection of the ellipsoid."""
    from pyproj import Proj

    return Proj("+proj=cea +ellps=WGS84")


def degrees(crs, t, col, row):
    """Longitudes and latitudes of points in columns and rows; NaN where there are none."""
    x = col * t[1] + row * t[2] + t[0]
    y = col * t[4] + row * t[5] + t[3]
    if crs not in ("EPSG:4326", "OGC:CRS84"):
        x, y = transformer(crs).transform(x, y)
    ok = np.isfinite(x) & np.isfinite(y) & (abs(y) <= 90)
    return np.where(ok, x, np.nan), np.where(ok, y, np.nan)


def areas(crs, t, col, row):
    """The areas of pixels: of quadrilaterals whose sides are straight in the projection."""
    corners = [degrees(crs, t, col + c, row + r) for c, r in ((0, 0), (1, 0), (1, 1), (0, 1))]
    first = corners[0][0]
    x = [(lon - first + 180) % 360 - 180 for lon, _ in corners]
    pole = np.zeros(len(first), bool)
    area = np.zeros(len(first))
    y = [np.array(cylinder()(np.zeros(len(first)), np.nan_to_num(lat))[1]) for _, lat in corners]
    for i in range(4):
        k = (i + 1) % 4
        pole |= abs(x[k] - x[i]) > 180
        # The shoelace formula, from the first corner on.
        area += np.radians(x[i]) * AXIS * (y[k] - y[0]) - np.radians(x[k]) * AXIS * (y[i] - y[0])
    area = abs(area) / 2
    known = np.all([np.isfinite(lon) for lon, _ in corners], axis=0)
    return np.where(known & ~pole, area, np.nan)


def coordinate(name, crs, t, col, row):
    """The value of a coordinate of pixels; NaN where it is invalid."""
    if name == "pixel_area":
        return areas(crs, t, col, row)
    lon, lat = degrees(crs, t, col + 0.5, row + 0.5)
    return lon if name == "lon" else lat
