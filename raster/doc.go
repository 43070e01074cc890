// Package raster describes rasters: the grid of their pixels, the meaning of their bands, and the
// interfaces through which windows of pixels are read. Packages raster/geotiff and npy open files
// as a [Source], and apply.Open also opens what GDAL reads.
//
// Arrays of pixels are (bands, rows, columns). A window is the column and row of its upper left
// pixel, then width and height. Bands are numbered from 1.
package raster
