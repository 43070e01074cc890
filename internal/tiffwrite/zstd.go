package tiffwrite

import "github.com/klauspost/compress/zstd"

// zstdEncoder writes one zstd frame with a checksum per tile.
type zstdEncoder struct{ enc *zstd.Encoder }

func newZstdEncoder(level int) zstdEncoder {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true),
		zstd.WithAllLitEntropyCompression(true)) // otherwise noise is stored uncompressed, see deflater
	if err != nil {
		panic(err) // no option depends on input
	}
	return zstdEncoder{enc}
}

func (z zstdEncoder) appendTile(dst, src []byte, _ int) ([]byte, error) {
	return z.enc.EncodeAll(src, dst), nil
}
