// Package timing records named intervals of work and shows where the time went: exact counts and
// totals, quartiles, a table for people, one sentence of advice, and a trace that Chrome and
// Perfetto show. It stands on the standard library alone and is usable by itself.
//
// The types to know are [Recorder], which many goroutines feed, and [Summary], which it gives.
//
// Memory is bounded however long a job runs. Counts, totals, minima and maxima are exact. Quartiles
// come from a uniform random sample of [MaxSample] durations a stage, so they are exact up to that
// many. The trace keeps at most [MaxIntervals] intervals: when they are full, every second block is
// dropped, and from then on only every second, fourth, eighth ... block is kept, with all of its
// stages. A gauge keeps at most [MaxPoints] points by the same rule. Stages, lanes and gauges are
// expected to be few (tens to hundreds); each name is kept for good.
//
// It measures elapsed time, not processor time: an interval whose goroutine was not running counts
// in full. Clocks of several machines are not reconciled.
package timing
