// Package coordinator lets other processes compute the blocks of a run. It does not depend on
// rasters: a [Coordinator] leases numbered blocks to workers and receives an opaque body for each.
// [Run] starts workers with a [worker.Launcher], waits for the end of the run, and always stops
// them.
//
// The protocol is HTTP/1.1 with JSON (docs/format/worker.md), over inherited sockets for child
// processes and TLS 1.3 for all others. A worker asks for blocks when it has free slots, and the
// first result of a block is accepted. A worker may join late, leave early, or die: its blocks are
// leased to other workers, a bounded number of times. An error of the function ends the run at
// once.
//
// The time spent on a block has no limit, but the time without a heartbeat has one
// ([protocol.Times]). A block may be computed more than once: again after its worker was lost, and
// near the end by idle workers that get copies. The coordinator trusts results from any holder of
// the endpoint's token: the token excludes other processes but can't detect a worker that sends
// wrong results.
//
// The design follows the coordinator of RIOS (www.rioshome.org). Leases and copies near the end
// follow Dask and MapReduce.
package coordinator
