// Package shm shares arrays between the processes of one user on one host without copies. One
// process puts an array and sends its [Handle], a string; others attach the same memory. Small
// arrays travel in the handle itself.
//
// The types to know are [Pool], which makes and attaches arrays; [Array], one use of one array; and
// [Scope], arrays that are closed together.
//
// Arrays are .npy files in memory without a name (a memfd), so NumPy can open them too; see
// [Array.File]. If memory has no space or too many descriptors are open, they are named files in
// /dev/shm or in the temporary directory. Put makes a snapshot that only its maker can write to;
// New makes an array that others may write to until it is sealed.
//
// # Lifetime
//
// An array lives as long as it is open in the process that made it; after that its handles are
// stale, while processes that have it attached keep it. The kernel frees it with its last user,
// even if all are killed. A worker that returns a new array hands it over through a unix socket,
// and need not wait for its receiver:
//
//	worker:   a := Put(result); a.Send(socket); exit
//	receiver: a := Receive(socket); use a; a.Close()
//
// Without a socket, the worker keeps the array open until the receiver has reported that it
// attached its handle.
//
// An Array owns its memory: slices and views of it must not be used after Close. Named files that
// killed processes leave are removed a few at a time as new ones are made, or all by [GC].
//
// # Limits
//
// A handle is invalid on other hosts, for other users, after the next boot, and in another PID
// namespace. Memory is checked against what the machine and all cgroups have free, before and while
// it is taken, but not against what others take at the same moment. A hard limit needs
// Options.Place Named on a tmpfs of fixed size, where exceeding it is an error. Handles and tags
// are checked against mistakes, stale handles and damage; a hostile process of the same user cannot
// be kept out. Processes that open the memory by its path, as NumPy does, hold no lock on it: the
// array must stay open until they are done. Systems other than Linux have named files only.
//
// The idea is that of joblib's memory mapping of arrays for its workers, with the kernel in place
// of the resource tracker; recycling pages is from Plasma.
package shm
