// Package stats computes the contents of a raster's statistics tags: the number of valid pixels,
// minimum, maximum, mean, standard deviation, and a histogram. It works tile by tile and merges the
// results in tile order, so the numbers do not depend on which worker computed which tile when.
//
// [Moments] are merged by the pairwise formulas of Chan, Golub and LeVeque (1979), which avoid
// cancellation on data far from 0. A histogram counts exactly for 8- and 16-bit integers. It
// counts other types by the leading 16 bits of their value as a float32, a relative width of 1/128.
package stats
