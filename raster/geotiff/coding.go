package geotiff

import (
	"fmt"
	"strings"

	"leat/ndarray"
)

// Compression is a way in which tiles are compressed.
type Compression uint8

// The compressions that are written. The zero value is no compression.
const (
	None Compression = iota
	Deflate
	Zstd
	LZW
	PackBits
	numCompressions
)

var compressions = [numCompressions]struct {
	name      string
	tag       uint16
	predicted bool // a predictor may go before it
	levels    int  // 1..levels are its levels; 0: it has none
}{
	None:     {"none", compressNone, false, 0},
	Deflate:  {"deflate", compressDeflate, true, 9},
	Zstd:     {"zstd", compressZstd, true, 22},
	LZW:      {"lzw", compressLZW, true, 0},
	PackBits: {"packbits", compressPackBits, false, 0},
}

// String returns the name that ParseCompression reads: "none", "deflate", "zstd", "lzw", "packbits".
func (c Compression) String() string {
	if c >= numCompressions {
		return fmt.Sprintf("Compression(%d)", uint8(c))
	}
	return compressions[c].name
}

// ParseCompression reads a name as String gives it, in any case.
func ParseCompression(s string) (Compression, error) {
	for c := None; c < numCompressions; c++ {
		if strings.EqualFold(s, compressions[c].name) {
			return c, nil
		}
	}
	return None, fmt.Errorf("geotiff: unknown compression %q (use one of none deflate zstd lzw packbits)", s)
}

// Coding is how the tiles of a file are encoded.
type Coding struct {
	Compression Compression
	// Predictor is 1 for none, 2 for the difference of neighbouring pixels (integers), 3 for the
	// difference of the bytes of floats. 0 means 1.
	Predictor int
	// Level is the effort: 1 to 9 for deflate, 1 to 22 for zstd. 0 takes the default of the type, see
	// [DefaultCoding]; the other compressions have none. Levels of deflate are not those of zlib.
	Level int
}

// String shows the coding: "deflate level 2, predictor 3".
func (c Coding) String() string {
	s := c.Compression.String()
	if c.Level != 0 {
		s += fmt.Sprintf(" level %d", c.Level)
	}
	if c.Predictor > 1 {
		s += fmt.Sprintf(", predictor %d", c.Predictor)
	}
	return s
}

// Check reports why pixels of type t can't be encoded so, or nil.
func (c Coding) Check(t ndarray.DType) error {
	if c.Compression >= numCompressions {
		return fmt.Errorf("geotiff: unknown compression %v", c.Compression)
	}
	if !t.Valid() {
		return fmt.Errorf("geotiff: no element type given")
	}
	d := compressions[c.Compression]
	if c.Level < 0 || c.Level > d.levels {
		if d.levels == 0 {
			return fmt.Errorf("geotiff: compression %s has no levels", d.name)
		}
		return fmt.Errorf("geotiff: level %d of %s (use 1 to %d)", c.Level, d.name, d.levels)
	}
	switch {
	case c.Predictor == 0 || c.Predictor == 1:
		return nil
	case c.Predictor != 2 && c.Predictor != 3:
		return fmt.Errorf("geotiff: predictor %d (use 1, 2 or 3)", c.Predictor)
	case !d.predicted:
		return fmt.Errorf("geotiff: compression %s takes no predictor", d.name)
	case t.IsComplex():
		return fmt.Errorf("geotiff: pixels of %v take no predictor", t)
	case c.Predictor == 3 && !t.IsFloat():
		return fmt.Errorf("geotiff: predictor 3 is for floats, not for %v (use 2)", t)
	}
	return nil
}

// filled returns c with its zero fields set to what they stand for.
func (c Coding) filled(t ndarray.DType) Coding {
	if c.Predictor == 0 {
		c.Predictor = 1
	}
	if c.Level == 0 {
		c.Level = defaultLevel(t, c.Compression, c.Predictor)
	}
	return c
}

// DefaultCoding returns the coding that suits pixels of type t in most rasters.
func DefaultCoding(t ndarray.DType, c Compression) Coding {
	all := Candidates(t, c)
	return all[len(all)-1]
}

// Candidates returns the codings that a trial by encoded size compares, the default last: one
// for each predictor that fits the type, at fixed levels.
func Candidates(t ndarray.DType, c Compression) []Coding {
	predictors := []int{1}
	if c < numCompressions && compressions[c].predicted {
		switch {
		case t.IsInteger():
			predictors = []int{1, 2}
		case t.IsFloat():
			predictors = []int{1, 3}
		}
	}
	var all []Coding
	for _, p := range predictors {
		all = append(all, Coding{Compression: c, Predictor: p, Level: defaultLevel(t, c, p)})
	}
	return all
}

// defaultLevel gives the level where more effort stops paying. Measured on scenes, elevation, NDVI and classes (docs/format/geotiff.md): noise, which
// predictors leave behind, gains 1 to 3 % for a third of the speed; what repeats itself, classes above
// all, gains 15 to 20 % for half of it, and is quick anyway.
func defaultLevel(t ndarray.DType, c Compression, predictor int) int {
	noise := predictor == 3 || predictor == 2 && t.Size() > 1
	switch {
	case c == Deflate && noise:
		return 2
	case c == Deflate:
		return 6
	case c == Zstd && predictor == 2 && noise:
		return 1
	case c == Zstd:
		return 3
	}
	return 0
}
