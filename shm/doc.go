// Package shm shares arrays between the processes of one user on one machine without copies. One
// process puts an array and sends its [Handle], a text; others attach the same memory. Small arrays
// travel in the handle itself.
//
// The types to know are [Pool], which makes and attaches; [Array], one use of one array; and
// [Scope], arrays that are closed together.
//
// Arrays lie in memory without a name (a memfd) as plain .npy files, so that NumPy opens them too,
// see [Array.File]. Where there is no room in memory or too many descriptors are open they are
// named files, in /dev/shm or in the temp folder on a disk. Put makes a snapshot: nobody can write
// to it but who made it, and nobody can change its size. New makes an array in place that others
// may write until it is sealed.
//
// # Lifetime
//
// An array lives as long as it is open in the process that made it; after that no handle leads to
// it, while those who have it attached keep it. The kernel frees it with its last user, and when
// all are killed. A worker that returns a new array hands it over through a unix socket, and need
// not wait for its receiver:
//
//	worker:   a := Put(result); a.Send(socket); exit
//	receiver: a := Receive(socket); use a; a.Close()
//
// Without a socket, the worker keeps the array open until the receiver has reported that it
// attached its handle.
//
// Memory belongs to its Array: slices and views of it must not be touched after Close, as nothing
// keeps it for them. Named files that killed processes leave are removed bit by bit as new ones are
// made, or all by [GC].
//
// # What it does not promise
//
// Handles lead nowhere on other machines, for other users, after the next boot, or for processes in
// another PID namespace. Memory is checked against what the machine and all cgroups leave, before
// and while it is taken; what others take at the same moment is not known, and may still call the
// kernel's killer. A hard limit needs Options.Place Named on a tmpfs of fixed size: there it is an
// error. A program of the same user that means harm can do any harm; checks are against mistakes,
// stale texts and damage. Other processes that open the memory by its path, as NumPy does, hold no
// lock on it: the array must stay open until they are done. Systems other than Linux have named
// files only.
//
// The idea is that of joblib's memory mapping of arrays for its workers, with the kernel in the
// place of the process that tracks resources; that of using pages again is Plasma's.
package shm
