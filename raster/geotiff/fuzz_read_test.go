package geotiff

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"leat/ndarray"
	"leat/raster"

	"golang.org/x/image/tiff/lzw"
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
	f.Add(handmade(binary.BigEndian, append(plain(9, 9, 12, 2, formatUint, compressPackBits),
		tag{tagRowsPerStrip, typeShort, []uint64{4}}),
		tagStripOffsets, tagStripByteCounts, [][]byte{{0x80, 0xf0, 7}, {0x81, 1}, {1, 2, 3}}))
	geo := append(plain(8, 4, 8, 1, formatUint, compressNone),
		tag{tagModelPixelScale, typeDouble, []uint64{1, 1, 0}}, tag{tagModelTiepoint, typeDouble, repeat(5, 6)},
		tag{tagGeoKeyDirectory, typeShort, []uint64{1, 1, 0, 2, 1025, 0, 1, 2, 3072, 0, 1, 32631}},
		tag{tagGDALNodata, typeASCII, []uint64{'7', 0}})
	xml := []uint64{}
	for _, c := range `<GDALMetadata><Item name="a" sample="0" role="scale">2</Item></GDALMetadata>` {
		xml = append(xml, uint64(c))
	}
	geo = append(geo, tag{tagGDALMetadata, typeASCII, xml})
	mask := append(plain(8, 4, 1, 1, formatUint, compressNone), tag{tagNewSubfileType, typeLong, []uint64{subfileMask}})
	half := append(plain(4, 2, 8, 1, formatUint, compressNone),
		tag{tagNewSubfileType, typeLong, []uint64{subfileReduced}})
	f.Add(handmadeChain(binary.LittleEndian, [][]tag{geo, mask, half}, tagStripOffsets, tagStripByteCounts,
		[][][]byte{{make([]byte, 32)}, {make([]byte, 4)}, {make([]byte, 8)}}))
	for _, n := range []int{91, 92} {
		f.Add(little(all(set(tagModelTiepoint, typeDouble, repeat(5, 18)...), set(tagRPC, typeDouble, repeat(5, n)...)),
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
	codecs := []uint64{compressNone, compressLZW, compressDeflate, compressPackBits, compressZstd, compressOldDeflate}
	types := [][2]uint64{{8, formatUint}, {16, formatUint}, {32, formatInt}, {64, formatUint}, {1, formatUint},
		{12, formatUint}, {4, formatUint},
		{16, formatFloat}, {32, formatFloat}, {64, formatFloat}, {32, formatComplexInt}, {64, formatComplexInt},
		{64, formatComplex}, {128, formatComplex}, {8, formatInt}}
	f.Fuzz(func(t *testing.T, codec, predictor, typ, samples uint8, big bool, data []byte) {
		var order binary.AppendByteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		k := types[int(typ)%len(types)]
		tags := plain(13, 11, k[0], uint64(samples)%5+1, k[1], codecs[int(codec)%len(codecs)])
		tags = append(tags, tag{tagPredictor, typeShort, []uint64{uint64(predictor)%3 + 1}},
			tag{tagRowsPerStrip, typeShort, []uint64{6}})
		file := handmade(order, tags, tagStripOffsets, tagStripByteCounts, [][]byte{data, data})
		checkKind(t, readSome(file))

		if len(data) > 5 {
			dst, want := make([]byte, 100), make([]byte, 100)
			r, err := zlib.NewReader(bytes.NewReader(data))
			if err == nil {
				_, err = io.ReadFull(r, want)
			}
			var b buffers
			got := b.inflate(dst, data, 1<<20)
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

// FuzzLZW compares the decoder with golang.org/x/image's and with the encoder.
func FuzzLZW(f *testing.F) {
	for _, raw := range [][]byte{nil, []byte("abababababab"), bytes.Repeat([]byte{7}, 9000),
		ndarray.BytesOf(sceneLike(64, 64))} {
		packed, err := new(lzwEncoder).appendTile(nil, raw, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed, uint16(len(raw)))
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint16) {
		var d lzwDecoder
		got := make([]byte, n)
		err := d.decode(got, data)
		if len(data) >= 2 && data[0] == 0 && data[1]&1 == 1 { // the old variant, which x/image does not know
			return
		}
		want, wantErr := io.ReadAll(io.LimitReader(lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8), int64(n)))
		if err == nil && (len(want) < int(n) || !bytes.Equal(got, want)) {
			t.Fatalf("%d bytes, x/image reads %d: %v", n, len(want), wantErr)
		}
		packed, e := new(lzwEncoder).appendTile(nil, data, 0)
		if e != nil {
			t.Fatal(e)
		}
		back := make([]byte, len(data))
		if err := d.decode(back, packed); err != nil || !bytes.Equal(back, data) {
			t.Fatalf("decoding of encoded data: %v", err)
		}
	})
}
