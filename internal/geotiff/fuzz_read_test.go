package geotiff

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"leat/internal/tiff"
	"leat/raster"
)

var nilContext = context.Background()

// checkKind fails if an error is of none of the documented kinds.
func checkKind(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, raster.ErrFormat) && !errors.Is(err, raster.ErrUnsupported) {
		t.Fatalf("undocumented kind of error: %v", err)
	}
}

// FuzzOpen opens arbitrary bytes and reads corners of what they describe.
func FuzzOpen(f *testing.F) {
	f.Add(little(nil, make([]byte, 32)))
	f.Add(tiffInMemory(f, 40, 40, 32, 2, 2))
	f.Add(handmade(binary.BigEndian, append(plain(9, 9, 12, 2, tiff.FormatUint, tiff.CompressionPackBits),
		tag{tiff.TagRowsPerStrip, tiff.TypeShort, []uint64{4}}),
		tiff.TagStripOffsets, tiff.TagStripByteCounts, [][]byte{{0x80, 0xf0, 7}, {0x81, 1}, {1, 2, 3}}))
	geo := append(plain(8, 4, 8, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagModelPixelScale, tiff.TypeDouble, []uint64{1, 1, 0}},
		tag{tiff.TagModelTiepoint, tiff.TypeDouble, repeat(5, 6)},
		tag{tiff.TagGeoKeyDirectory, tiff.TypeShort, []uint64{1, 1, 0, 2, 1025, 0, 1, 2, 3072, 0, 1, 32631}},
		tag{tiff.TagGDALNodata, tiff.TypeASCII, []uint64{'7', 0}})
	xml := []uint64{}
	for _, c := range `<GDALMetadata><Item name="a" sample="0" role="scale">2</Item></GDALMetadata>` {
		xml = append(xml, uint64(c))
	}
	geo = append(geo, tag{tiff.TagGDALMetadata, tiff.TypeASCII, xml})
	mask := append(plain(8, 4, 1, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagNewSubfileType, tiff.TypeLong, []uint64{tiff.SubfileMask}})
	half := append(plain(4, 2, 8, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagNewSubfileType, tiff.TypeLong, []uint64{tiff.SubfileReduced}})
	f.Add(handmadeChain(binary.LittleEndian, [][]tag{geo, mask, half}, tiff.TagStripOffsets, tiff.TagStripByteCounts,
		[][][]byte{{make([]byte, 32)}, {make([]byte, 4)}, {make([]byte, 8)}}))
	for _, n := range []int{91, 92} {
		f.Add(little(all(set(tiff.TagModelTiepoint, tiff.TypeDouble, repeat(5, 18)...),
			set(tiff.TagRPC, tiff.TypeDouble, repeat(5, n)...)),
			make([]byte, 32)))
	}
	for _, file := range lenientFiles() {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkKind(t, readSome(b)) })
}

// FuzzReadTile decodes arbitrary bytes as a tile of every codec, predictor and type, and compares
// deflate with the standard library.
func FuzzReadTile(f *testing.F) {
	f.Add(uint8(0), uint8(0), uint8(0), uint8(1), false, make([]byte, 300))
	f.Add(uint8(2), uint8(1), uint8(3), uint8(3), true, []byte{0x78, 0x9c, 3, 0, 0, 0, 0, 1})
	f.Add(uint8(4), uint8(2), uint8(8), uint8(1), false, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0})
	f.Add(uint8(1), uint8(1), uint8(1), uint8(2), false, []byte{0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 1})
	f.Add(uint8(1), uint8(0), uint8(0), uint8(1), false, oldLZW(count(300)))
	codecs := []uint64{tiff.CompressionNone, tiff.CompressionLZW, tiff.CompressionDeflate, tiff.CompressionPackBits,
		tiff.CompressionZstd, tiff.CompressionOldDeflate}
	types := [][2]uint64{{8, tiff.FormatUint}, {16, tiff.FormatUint}, {32, tiff.FormatInt}, {64, tiff.FormatUint},
		{1, tiff.FormatUint},
		{12, tiff.FormatUint}, {4, tiff.FormatUint},
		{16, tiff.FormatFloat}, {32, tiff.FormatFloat}, {64, tiff.FormatFloat}, {32, tiff.FormatComplexInt},
		{64, tiff.FormatComplexInt},
		{64, tiff.FormatComplex}, {128, tiff.FormatComplex}, {8, tiff.FormatInt}}
	f.Fuzz(func(t *testing.T, codec, predictor, typ, samples uint8, big bool, data []byte) {
		var order binary.AppendByteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		k := types[int(typ)%len(types)]
		tags := plain(13, 11, k[0], uint64(samples)%5+1, k[1], codecs[int(codec)%len(codecs)])
		tags = append(tags, tag{tiff.TagPredictor, tiff.TypeShort, []uint64{uint64(predictor)%3 + 1}},
			tag{tiff.TagRowsPerStrip, tiff.TypeShort, []uint64{6}})
		file := handmade(order, tags, tiff.TagStripOffsets, tiff.TagStripByteCounts, [][]byte{data, data})
		checkKind(t, readSome(file))

		if len(data) > 5 {
			dst, want := make([]byte, 100), make([]byte, 100)
			r, err := zlib.NewReader(bytes.NewReader(data))
			if err == nil {
				_, err = io.ReadFull(r, want)
			}
			var d tiff.Decoder
			got := d.Decompress(tiff.CompressionDeflate, dst, data, len(dst)+1<<20)
			if got == nil && (err != nil || !bytes.Equal(dst, want)) {
				t.Fatalf("inflate accepts what the standard library refuses: %v", err)
			}
			if rest, e := io.Copy(io.Discard, readerOr(r)); got != nil && err == nil && e == nil && rest < 1<<20 {
				t.Fatalf("the standard library reads what inflate refuses: %v", got)
			}
		}
	})
}

func readerOr(r io.Reader) io.Reader {
	if r == nil {
		return bytes.NewReader(nil)
	}
	return r
}
