package tiffwrite

import (
	"fmt"
	"sync"

	"leat/internal/tiff"
)

// DecodeTile decodes one tile that [Encoder.Encode] wrote, frame included. It fills dst with
// Width*Height*Samples elements in the machine's byte order; dst must be aligned to 8 bytes. It is
// safe for concurrent use.
func DecodeTile(s TileShape, c Coding, framed, dst []byte) error {
	return decodeRows(s, c, framed, dst, s.Height)
}

// DecodeRows is DecodeTile for at least the first rows of a tile. dst has the size of a tile; what
// it holds of other rows is undefined. The checksum of deflate is verified only for whole tiles.
func DecodeRows(s TileShape, c Coding, framed, dst []byte, rows int) error {
	if c.Compression != Deflate {
		rows = s.Height
	}
	return decodeRows(s, c, framed, dst, min(rows, s.Height))
}

func decodeRows(s TileShape, c Coding, framed, dst []byte, rows int) error {
	if len(framed) < FrameBytes || len(dst) != s.Bytes() {
		return fmt.Errorf("decoding a tile of %d bytes to %d bytes: wrong size", len(framed), len(dst))
	}
	compression, err := compressionOf(c.Compression)
	if err != nil {
		return err
	}
	d := decoders.Get().(*tiff.Decoder)
	defer func() {
		d.Trim()
		decoders.Put(d)
	}()
	src := framed[frameHead : len(framed)-frameTail]
	if rows < s.Height {
		dst = dst[:len(dst)/s.Height*rows]
		err = d.InflateStart(dst, src)
	} else {
		err = d.Decompress(int(compression.tag), dst, src, len(dst))
	}
	if err != nil {
		return fmt.Errorf("decoding a tile: %w", err)
	}
	if tiff.NativeBig && c.Predictor != 3 { // files are written little-endian
		tiff.SwapWords(dst, s.wordSize())
	}
	d.Unpredict(c.Predictor, dst, len(dst)/rows, s.Type.Size(), s.Samples)
	return nil
}

var decoders = sync.Pool{New: func() any { return new(tiff.Decoder) }}
