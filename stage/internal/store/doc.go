// Package store holds the bytes of staged objects in a stage's directory. It deals with numbers and
// sizes only; package index manages names, limits, pins and eviction, and assigns the numbers.
//
//   - segments/ has files of up to 64 MiB into which objects below 1 MiB are packed. Each region
//     starts at a multiple of [Block] and takes whole blocks, so that punching a hole over it frees
//     exactly its space. Regions are never reused.
//   - objects/ has a file for each larger object, in 256 directories by the last two digits of its
//     number.
//
// An object is written through a [Writer], found by its [Place], and removed by [Store.Free].
// Several processes may use one directory. Each appends to segments of its own, and writes files of
// its own, under locks that end with the process. A Writer holds its lock until Close, that is,
// until the index has the object. A [Store.Sweep] removes files that are neither locked nor in the
// index: everything that a killed process left, and nothing that is being written.
//
// The package does not flush: after a power loss bytes may be missing or zero. Objects are packed
// only where punching a hole frees exactly its space, see [Store.Packs].
package store
