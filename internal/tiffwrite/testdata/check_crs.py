"""Reads files with GDAL and compares their coordinate reference systems with those of WKT texts."""
import json
import sys

from osgeo import gdal, osr

gdal.UseExceptions()
faults = []
files = json.load(open(sys.argv[1]))
for path, text in files.items():
    want = osr.SpatialReference()
    want.SetFromUserInput(text)
    got = gdal.Open(path).GetSpatialRef()
    options = ["CRITERION=EQUIVALENT_EXCEPT_AXIS_ORDER_GEOGCRS", "IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES"]
    if got is None or not got.IsSame(want, options):
        faults.append(f"{path}: {got and got.ExportToWkt()}\n  is not {want.ExportToWkt()}")
if faults:
    sys.exit("\n".join(faults))
print(f"{len(files)} systems checked")
