// Package pyfunc computes blocks by functions in Python processes, one for each slot of a worker,
// or in the process that passed leat a socket.
//
// [Load] loads a function once, so that what is wrong with it is known before the run begins.
// [Function.Exec] makes the function of a run. Blocks are in shared memory (exec.Memory); outputs
// are in a file in memory that Python makes larger and leat maps.
//
// The protocol is in docs/format/function.md. It does not protect against malicious functions: a
// function is the user's own program.
package pyfunc
