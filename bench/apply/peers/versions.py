"""Prints the versions of what is compared with; what can't be imported ends it with an error that says which."""
import sys

import numpy
import rasterio

print(f"Python {sys.version.split()[0]}, NumPy {numpy.__version__}, rasterio {rasterio.__version__}, GDAL {rasterio.__gdal_version__}")
