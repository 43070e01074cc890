// Package metric serves metrics in the text formats of Prometheus and OpenMetrics: a [Source] adds
// what it measures to a [Set], and [Handler] encodes it.
//
// The package uses Prometheus' data model and encoders. Prometheus' client is not used, because a
// program that imports it describes Go's runtime and its process each time that it starts, which
// takes as long as all clients of AWS do.
package metric
