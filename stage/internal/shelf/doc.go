// Package shelf is where the bytes of staged objects lie in a stage's directory. It knows numbers and sizes; names, limits, what is in use
// and what goes first are the ledger's, which also makes the numbers.
//
//   - segments/ has files of up to 64 MiB into which objects under 1 MiB are packed. Each region begins at a multiple of [Block] and takes whole
//     blocks, so that a hole punched over it gives back exactly what it took. Regions are never used twice.
//   - objects/ has a file for each larger object, in 256 folders by the last two digits of its number.
//
// An object is written through a [Draft], found again by its [Place], and removed by [Shelf.Free]. Several processes may have one directory open.
// Each appends to a segment of its own, which it holds by a lock that dies with it; so it does with a file that it writes. The lock is kept until the
// Draft is closed, that is, until the ledger knows the object: a [Shelf.Sweep] that asks the ledger about what nobody holds therefore never takes what is
// being made, and takes all that a killed process left.
//
// It does not flush: after a loss of power bytes may be missing or zero. Where the file system can't punch holes, or gives back something
// else than what was punched, nothing is packed, see [Shelf.Packs].
package shelf
