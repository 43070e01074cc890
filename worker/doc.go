// Package worker is the interface between a run and the systems that start its workers: child
// processes, and jobs of a batch system on other machines.
//
// A [Launcher] starts workers in one way; packages worker/subprocess, worker/slurm, worker/pbs and
// worker/awsbatch each provide one. Start gets [StartOptions] and returns a [Fleet], which the run
// stops at its end. A worker is the run's own program, started again. Environment variables that
// begin with LEAT_WORKER ([EnvEndpoint] and the others) hold or locate the run's [Endpoint].
//
// [Status] is a snapshot of a run's workers, and [Failure] and [LostError] are errors of a run with
// workers.
//
// A worker may join late, leave early, or die: others then compute its blocks. So the side effects
// of a function may happen more than once. Any holder of an endpoint's token may send results: the
// endpoint's text must be hidden from other users.
//
// The launchers follow those of RIOS (www.rioshome.org).
package worker
