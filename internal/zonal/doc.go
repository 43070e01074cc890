// Package zonal computes statistics of a raster's pixels within zones: polygons, or the integers of
// a second raster.
//
// [Rasterizer.Cover] finds the pixels of a [Polygon] in a window as a [Mask]: those whose centre it
// covers, those that it touches, or the exact share of each pixel's area. [Index] finds the zones
// of a window, and [Regions] divides a window of zone numbers. A [Collector] adds the values below
// a mask to a [State], which is small, has an encoding, and merges with the states of other
// windows. A [Merger] does that for many zones within a bound on memory.
//
// Results do not depend on how the raster is divided into windows nor on the order in which states
// are merged, to the last bit: weights are whole multiples of 2^-40, sums are exact, and each
// statistic is rounded once, a standard deviation twice.
//
// The shares of pixels follow the definition of exactextract
// (https://isciences.github.io/exactextract/), pixels by centre and by touch that of
// gdal_rasterize. Exact sums use the superaccumulator of Neal, "Fast exact summation using small
// and large superaccumulators" (2015).
package zonal
