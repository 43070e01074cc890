// Package resolve turns the values of a job into open sources on one grid: it opens the inputs,
// computes the job's grid, warps inputs that lie off it, checks vectors and decides how remote
// files are read.
//
// [Open] returns the [Inputs] of a job, [Grid] its grid. A [File] is one file of an input, with the
// layers, nodata and masks that a job reads.
package resolve
