// Package deflate encodes the tiles of rasters as zlib streams. Its only types are [Encoder] and
// [Options].
//
// It complements github.com/klauspost/compress/flate, which took more than half of a run's time:
// pixels are mostly noise, in which a general matcher searches in vain. Here a sample decides which
// of a few matchers a tile gets; the quickest finds runs of one byte only. Everything else is coded
// by the frequency of its bytes.
//
// The bytes of a stream depend on the input and the options alone: not on the machine, the version
// of Go, or what the encoder encoded before. Resumed runs and the tests of whole files rely on
// that; the tests of this package hold a table of hashes. All arithmetic is on integers, and bytes
// are loaded in little-endian order.
//
// The writer follows Fabian Giesen's and Eric Biggers' work on bit buffers: entries hold a word at
// the top and its length at the bottom, so that a literal costs a load, a shift, an or and an
// addition.
package deflate
