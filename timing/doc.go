// Package timing records named intervals of work and shows where the time went: exact counts and
// totals, quartiles, a table for people, and a trace for Chrome and Perfetto.
//
// The types to know are [Recorder], to which many goroutines report, and [Summary], its result.
//
// Memory is bounded, however long a job runs. Counts, totals, minima and maxima are exact.
// Quartiles come from a uniform random sample of 8192 durations a stage, so they are exact
// up to that many. The trace keeps at most 65536 intervals: when they are full, every
// second block is dropped, and from then on only every second, fourth, eighth ... block is kept,
// with all of its stages. A gauge keeps at most 4096 points by the same rule. Stages, lanes
// and gauges are expected to be few (tens to hundreds), since the Recorder keeps each name.
//
// Intervals are elapsed time, not processor time: they include times in which the goroutine did not
// run. Clocks of several machines are not adjusted to each other.
package timing
