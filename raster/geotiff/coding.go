package geotiff

import (
	"fmt"
	"strings"

	"leat/ndarray"
)

// Compression is a compression method of tiles.
type Compression uint8

// The compressions that this package writes. The zero value is no compression.
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
	predicted bool // allows a predictor
	levels    int  // levels are 1..levels; 0 if there are none
}{
	None:     {"none", compressNone, false, 0},
	Deflate:  {"deflate", compressDeflate, true, 9},
	Zstd:     {"zstd", compressZstd, true, 22},
	LZW:      {"lzw", compressLZW, true, 0},
	PackBits: {"packbits", compressPackBits, false, 0},
}

// String returns the name that ParseCompression accepts: "none", "deflate", "zstd", "lzw",
// "packbits".
func (c Compression) String() string {
	if c >= numCompressions {
		return fmt.Sprintf("Compression(%d)", uint8(c))
	}
	return compressions[c].name
}

// ParseCompression returns the compression with the name s, in upper or lower case.
func ParseCompression(s string) (Compression, error) {
	for c := None; c < numCompressions; c++ {
		if strings.EqualFold(s, compressions[c].name) {
			return c, nil
		}
	}
	return None, fmt.Errorf("geotiff: unknown compression %q (use one of none deflate zstd lzw packbits)", s)
}

// Coding describes how the tiles of a file are encoded.
type Coding struct {
	Compression Compression
	// Predictor is 1 for none, 2 for the difference of neighbouring pixels (integers), 3 for the
	// difference of the bytes of floats. 0 means 1.
	Predictor int
	// Level is 1 to 9 for deflate and 1 to 22 for zstd; the other compressions have none. 0 means
	// the default for the type, see [DefaultCoding]. Levels of deflate differ from those of zlib.
	Level int
}

// String returns a description such as "deflate level 2, predictor 3".
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

// Check returns an error if pixels of type t cannot be encoded with c.
func (c Coding) Check(t ndarray.DType) error {
	if c.Compression >= numCompressions {
		return fmt.Errorf("geotiff: unknown compression %v", c.Compression)
	}
	if !t.Valid() {
		return fmt.Errorf("geotiff: element type is missing")
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
		return fmt.Errorf("geotiff: compression %s allows no predictor", d.name)
	case t.IsComplex():
		return fmt.Errorf("geotiff: pixels of %v allow no predictor", t)
	case c.Predictor == 3 && !t.IsFloat():
		return fmt.Errorf("geotiff: predictor 3 is for floats, not for %v (use 2)", t)
	}
	return nil
}

// filled returns c with its zero fields set to their defaults.
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

// Candidates returns the codings to choose from by encoded size, the default last: one for each
// predictor that fits the type, with fixed levels.
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

// defaultLevel returns the level above which more effort gains little. Measurements on scenes,
// elevation, NDVI and classes are in docs/format/geotiff.md: noise, which predictors leave, shrinks
// by 1 to 3 % more at a third of the speed; repetitive data such as classes shrinks by 15 to 20 %
// more at half the speed.
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
