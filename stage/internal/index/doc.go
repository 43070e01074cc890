// Package index records, for all processes that use a stage's directory, which objects it holds and
// where, how much space they take, and which are in use. It never touches the bytes of an object.
//
//   - index is a mapped file: a header with the shared counts, a table of buckets, and records
//     chained by the hash of their object's key. A lookup takes no lock. The file grows by chunks
//     that are allocated on the disk before they are touched.
//   - procs/ has one file per process, locked until the process ends: its reservations, the places
//     it writes to, and its pins, which are the numbers of the records that it uses. Any process
//     that finds the file of a dead one releases what it held.
//   - locks is a file of locks on numbers: one for each key (to copy or evict the object), one for
//     each bucket (to change its chain).
//
// The order of steps ensures that a kill can only leave too much space counted, never too little,
// and never a state that looks complete and is not. The next process that opens the directory alone
// corrects the counts, see [Open].
//
// Lock order: a key, then a bucket. A process never waits for a key while it holds another.
package index
