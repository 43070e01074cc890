// Package ledger keeps the books of a stage for all processes that use its directory: which objects are there and where their bytes lie,
// how much room is taken, and what is in use. It never touches the bytes of an object.
//
//   - index is one mapped file: a header with the common counts, a table of buckets, and records, which are chained by the hash of their
//     object's key. Looking one up takes no lock. It grows by pieces that are allocated on the disk before they are touched.
//   - procs/ has one file a process, held by a lock that dies with it: what it has reserved and is writing, and its pins, which are the
//     numbers of the records that it uses. Whoever finds a dead one gives back what it had.
//   - locks is a file of locks on numbers: one for each key (copying, evicting), one for each bucket (changing its chain).
//
// Every step is made in the order in which a kill can only leave too much room counted, never too little, and no state that the next comer
// takes for whole. What was lost so is found again by the next process that opens the directory alone after a death, see Open.
//
// The order of locks: a key, then a bucket; nobody waits for a key while holding another.
package ledger
