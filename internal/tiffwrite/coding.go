package tiffwrite

import (
	"cmp"
	"fmt"

	"leat/internal/tiff"
	"leat/ndarray"
)

// Names of compressions.
const (
	None     = "none"
	Deflate  = "deflate"
	Zstd     = "zstd"
	LZW      = "lzw"
	PackBits = "packbits"
)

// compression describes a compression by its name.
type compression struct {
	name      string
	tag       uint16
	predicted bool // allows a predictor
	levels    int  // levels are 1..levels; 0 if there are none
}

var compressions = []compression{
	{None, tiff.CompressionNone, false, 0},
	{Deflate, tiff.CompressionDeflate, true, 9},
	{Zstd, tiff.CompressionZstd, true, 22},
	{LZW, tiff.CompressionLZW, true, 0},
	{PackBits, tiff.CompressionPackBits, false, 0},
}

// compressionOf returns the compression with a name; "" is none.
func compressionOf(name string) (compression, error) {
	for _, c := range compressions {
		if c.name == cmp.Or(name, None) {
			return c, nil
		}
	}
	return compression{}, fmt.Errorf("unknown compression %q (expected deflate, zstd, lzw, packbits or none)", name)
}

// Coding describes how the tiles of a file are encoded.
type Coding struct {
	Compression string // "deflate", "zstd", "lzw", "packbits", or "none", the default
	// Predictor is 1 for none, 2 for the difference of neighbouring pixels (integers), 3 for the
	// difference of the bytes of floats. 0 means 1.
	Predictor int
	// Level is 1 to 9 for deflate and 1 to 22 for zstd; the other compressions have none. 0 means
	// the default for the type, see [Candidates]. Levels of deflate differ from those of zlib:
	// level 1 is the encoder of internal/deflate.
	Level int
}

// String returns a description such as "deflate level 1, predictor 3".
func (c Coding) String() string {
	s := cmp.Or(c.Compression, None)
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
	d, err := compressionOf(c.Compression)
	if err != nil {
		return err
	}
	if !t.Valid() {
		return fmt.Errorf("element type is missing")
	}
	if c.Level < 0 || c.Level > d.levels {
		if d.levels == 0 {
			return fmt.Errorf("compression %s has no levels", d.name)
		}
		return fmt.Errorf("level %d of %s (expected 1 to %d)", c.Level, d.name, d.levels)
	}
	switch {
	case c.Predictor == 0 || c.Predictor == 1:
		return nil
	case c.Predictor != 2 && c.Predictor != 3:
		return fmt.Errorf("predictor %d (expected 1, 2 or 3)", c.Predictor)
	case !d.predicted:
		return fmt.Errorf("compression %s allows no predictor", d.name)
	case t.IsComplex():
		return fmt.Errorf("pixels of %v allow no predictor", t)
	case c.Predictor == 3 && !t.IsFloat():
		return fmt.Errorf("predictor 3 is for floats, not for %v", t)
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

// Candidates returns the codings to choose from by encoded size, the default last: one for each
// predictor that fits the type, with its default level. If that is another level of deflate,
// level 1 comes before it: it takes less time, and less space where values repeat.
func Candidates(t ndarray.DType, compression string) []Coding {
	predictors := []int{1}
	if c, err := compressionOf(compression); err == nil && c.predicted {
		switch {
		case t.IsInteger():
			predictors = []int{1, 2}
		case t.IsFloat():
			predictors = []int{1, 3}
		}
	}
	var all []Coding
	for _, p := range predictors {
		level := defaultLevel(t, compression, p)
		if compression == Deflate && len(predictors) > 1 && level > 1 {
			all = append(all, Coding{Compression: compression, Predictor: p, Level: 1})
		}
		all = append(all, Coding{Compression: compression, Predictor: p, Level: level})
	}
	return all
}

// defaultLevel returns the level above which more effort gains little. Measurements on scenes,
// elevation, NDVI and classes are in docs/format/geotiff.md. Deflate's level 1 is for the data that
// internal/deflate knows: planes of floats, and elements of at most 16 bits.
func defaultLevel(t ndarray.DType, compression string, predictor int) int {
	switch {
	case compression == Deflate && (predictor == 3 || t.Size() <= 2):
		return 1
	case compression == Deflate && predictor == 2:
		return 2
	case compression == Deflate:
		return 6
	case compression == Zstd && predictor == 2 && t.Size() > 1:
		return 1
	case compression == Zstd:
		return 3
	}
	return 0
}
