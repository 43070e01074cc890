// Package deflate encodes the tiles of rasters as zlib streams. Its only types are [Encoder] and
// [Options].
//
// It replaces github.com/klauspost/compress/flate for most tiles. That package took more than half
// of a run's time: pixels are mostly noise, in which a general matcher searches in vain. Here a
// sample of the tile selects one of a few matchers; the quickest finds only runs of one byte. All
// other bytes are Huffman-coded literals.
//
// The bytes of a stream depend only on the input and the options: not on the machine, the version
// of Go, or what the encoder encoded before. Resumed runs and the tests of whole files rely on
// that; this package's tests compare streams with recorded hashes. All arithmetic is on integers,
// and bytes are loaded in little-endian order.
//
// A word is a codeword of a Huffman code. The writer follows Fabian Giesen's and Eric Biggers' work
// on bit buffers: an entry holds a word in its top bits and the word's length in its bottom bits,
// so a literal costs a load, a shift, an OR and an addition. On processors with AVX2 and BMI2,
// assembly counts and writes symbols, compares the bytes of long matches, and finds and selects
// those of pixels. With AVX-512 VBMI2, it looks up 64 words in registers.
package deflate
