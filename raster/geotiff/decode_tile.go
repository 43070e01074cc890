package geotiff

import "fmt"

// DecodeTile decodes one tile that [Encoder.Encode] wrote, frame included. It fills dst with
// Width*Height*Samples elements in the machine's byte order; dst must be aligned to 8 bytes. It is
// safe for concurrent use.
func DecodeTile(s TileShape, c Coding, framed, dst []byte) error {
	if len(framed) < FrameBytes || len(dst) != s.Bytes() {
		return fmt.Errorf("geotiff: decoding a tile of %d bytes to %d bytes: wrong size", len(framed), len(dst))
	}
	b := bufferPool.Get().(*buffers)
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
