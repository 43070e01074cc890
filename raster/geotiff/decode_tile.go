package geotiff

import "fmt"

// DecodeTile undoes [Encoder.Encode]: it fills dst, Width*Height*Samples elements in the machine's byte order
// aligned to 8 bytes, from one encoded tile with its frame. Safe for concurrent use.
func DecodeTile(s TileShape, c Coding, framed, dst []byte) error {
	if len(framed) < FrameBytes || len(dst) != s.Bytes() {
		return fmt.Errorf("geotiff: a tile of %d bytes to decode to %d", len(framed), len(dst))
	}
	b := benches.Get().(*bench)
	defer b.release()
	src := framed[frameHead : len(framed)-frameTail]
	if err := b.decompress(int(compressions[c.Compression].tag), dst, src, len(dst)); err != nil {
		return fmt.Errorf("geotiff: decoding a tile: %w", err)
	}
	size, rowBytes := s.Type.Size(), len(dst)/s.Height
	if c.Predictor == 3 {
		undoFloat(dst, rowBytes, size, s.Samples, grown(&b.spare, rowBytes))
		return nil
	}
	if nativeBig { // files are written little-endian
		word := size
		if s.Type.IsComplex() {
			word /= 2
		}
		swapWords(dst, word)
	}
	if c.Predictor == 2 {
		undoDifference(dst, rowBytes, size, s.Samples)
	}
	return nil
}
