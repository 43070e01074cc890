// Package stats computes what a raster's statistics tags hold: number of valid pixels, minimum, maximum,
// mean, standard deviation, and a histogram. It works tile by tile; the tiles' results are merged in tile order,
// so the numbers do not depend on who computed which tile when.
//
// [Moments] are merged by the pairwise formulas of Chan, Golub and LeVeque (1979), so nothing cancels on
// data far from 0. A [Histogram] counts exactly for 8- and 16-bit integers; other types are counted by
// the leading 16 bits of their value as a float32, which is a relative width of 1/128.
package stats
