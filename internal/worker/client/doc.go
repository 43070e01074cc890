// Package client is a worker's side of a run: [FromEnvironment] reads the variables that a launcher
// has set, and [Work] joins the run and computes blocks with a [Handler] until the run ends.
//
// A worker has connections for heartbeats, for leases, and for results. It asks for one block more
// than it has slots, so that the next one is read while others are computed.
package client
