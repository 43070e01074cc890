"""Constants and defaults, which environment variables of RIOS change."""

from __future__ import annotations

import os

INTERSECTION = 0
UNION = 1
BOUNDS_FROM_REFERENCE = 2

DEFAULTFOOTPRINT = int(os.environ.get("RIOS_DFLT_FOOTPRINT", INTERSECTION))
DEFAULTWINDOWXSIZE = int(os.environ.get("RIOS_DFLT_BLOCKXSIZE", 256))
DEFAULTWINDOWYSIZE = int(os.environ.get("RIOS_DFLT_BLOCKYSIZE", 256))
DEFAULTOVERLAP = int(os.environ.get("RIOS_DFLT_OVERLAP", 0))
DEFAULTDRIVERNAME = os.environ.get("RIOS_DFLT_DRIVER", "HFA")
DEFAULT_MINOVERVIEWDIM = int(os.environ.get("RIOS_DFLT_MINOVERLEVELDIM", 128))
DEFAULT_OVERVIEWLEVELS = [int(level) for level in os.environ.get(
    "RIOS_DFLT_OVERVIEWLEVELS", "4,8,16,32,64,128,256,512").split(",")]
DEFAULT_OVERVIEWAGGREGRATIONTYPE = os.environ.get("RIOS_DFLT_OVERVIEWAGGTYPE", "NEAREST")
DEFAULT_AUTOCOLORTABLETYPE = os.environ.get("RIOS_DFLT_AUTOCOLORTABLETYPE")
DEFAULT_RESAMPLEMETHOD = "near"

_CREATION_OPTIONS = {
    "HFA": "COMPRESSED=YES IGNOREUTM=YES",
    "GTiff": "TILED=YES COMPRESS=DEFLATE INTERLEAVE=BAND BIGTIFF=IF_SAFER",
    "Zarr": "FORMAT=ZARR_V3 COMPRESS=BLOSC",
}


def default_creation_options(driver: str) -> list[str]:
    """Return the creation options of a driver that the controls say nothing about."""
    text = os.environ.get("RIOS_DFLT_CREOPT_" + driver)
    if text is None:
        text = os.environ.get("RIOS_DFLT_DRIVEROPTIONS")
        if text is None or driver != DEFAULTDRIVERNAME:
            text = _CREATION_OPTIONS.get(driver, "")
    return [] if text == "None" else text.split()
