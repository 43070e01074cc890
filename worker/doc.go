// Package worker lets other processes compute the blocks of a run: children of this one, and jobs of a batch system on other machines. It knows
// nothing of rasters: it hands out numbered blocks under leases, and takes an opaque body for each.
//
// The types to know are [Channel], the run's side, to which workers come; [Kind], which starts workers in one way (packages
// worker/subprocess, worker/slurm, worker/pbs and worker/awsbatch); and [Computer], a worker's work, which [Work] leads from lease to result. [Run] starts
// workers of a kind on a channel, waits for the end, and stops them however it ends.
//
// The protocol is HTTP/1.1 with JSON (docs/format/worker.md), over inherited sockets for children and TLS 1.3 for all others: one code for both, and curl can
// speak it. A worker asks for blocks when it has room for them, and each result is taken once, from whichever worker has it first. A worker may come late, leave early, or die:
// what it held is given to others, a bounded number of times. An error of the function ends the run at once.
//
// No time bounds the work on a block; times are on silence ([Times]). What is not promised: that a block is computed once only. It is
// computed again when its worker was lost, and near the end idle workers get copies of what others hold; so a function's other effects may
// happen twice. Whoever has the invitation's token is trusted with the results: it keeps strangers out, and can't keep a worker honest.
//
// The kinds of workers and the channel take after those of RIOS (www.rioshome.org), leases and copies near the end after Dask and MapReduce.
package worker
