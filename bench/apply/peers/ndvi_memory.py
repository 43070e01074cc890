"""NDVI by NumPy on arrays that are in memory already, to arrays in memory: the computation alone."""
import numpy as np
import rasterio

from common import arguments, done, start

red_path, nir_path = arguments("RED", "NIR")
np.seterr(all="ignore")
red, nir = rasterio.open(red_path).read(1), rasterio.open(nir_path).read(1)
start()
r, n = red.astype(np.float32), nir.astype(np.float32)
ndvi = (n - r) / (n + r)
done()
