package geotiff

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/tiff"
	"leat/ndarray"
	"leat/raster"
)

// deflated compresses b as zlib does.
func deflated(b []byte) []byte {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	w.Write(b)
	w.Close()
	return z.Bytes()
}

func count(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestReadUnusualFiles(t *testing.T) {
	pix := count(8 * 6)
	tags := func(compression uint64, more ...tag) []tag {
		return append(plain(8, 6, 8, 1, tiff.FormatUint, compression), more...)
	}
	strips := func(b []byte, rows int) (out [][]byte) {
		for ; len(b) > 0; b = b[min(len(b), rows*8):] {
			out = append(out, b[:min(len(b), rows*8)])
		}
		return out
	}
	pack := func(parts [][]byte) (out [][]byte) {
		for _, p := range parts {
			out = append(out, deflated(p))
		}
		return out
	}
	rows4 := tag{tiff.TagRowsPerStrip, tiff.TypeShort, []uint64{4}}
	mirrored := slices.Clone(pix)
	for i := range mirrored {
		mirrored[i] = bits.Reverse8(mirrored[i])
	}
	padded := append(slices.Clone(pix), make([]byte, 16)...) // the last strip as long as the others
	without := func(b []byte, id uint16) []byte {            // replaces a tag by an unknown one
		at := bytes.LastIndex(b, binary.LittleEndian.AppendUint16(nil, id))
		binary.LittleEndian.PutUint16(b[at:], 65000)
		return b
	}
	make1 := func(tags []tag, parts [][]byte) []byte {
		return handmade(binary.LittleEndian, tags, tiff.TagStripOffsets, tiff.TagStripByteCounts, parts)
	}
	for name, file := range map[string][]byte{
		"one strip, no rows per strip":          make1(tags(tiff.CompressionNone), [][]byte{pix}),
		"the old number of deflate":             make1(tags(tiff.CompressionOldDeflate, rows4), pack(strips(pix, 4))),
		"a deflate strip padded past the image": make1(tags(tiff.CompressionDeflate, rows4), pack(strips(padded, 4))),
		"an uncompressed strip padded":          make1(tags(tiff.CompressionNone, rows4), strips(padded, 4)),
		"reversed bits": make1(tags(tiff.CompressionNone,
			tag{tiff.TagFillOrder, tiff.TypeShort, []uint64{2}}),
			[][]byte{mirrored}),
		"no byte counts": without(make1(tags(tiff.CompressionNone, rows4), strips(pix, 4)),
			tiff.TagStripByteCounts),
		"no byte counts, deflate": without(make1(tags(tiff.CompressionDeflate, rows4), pack(strips(pix, 4))),
			tiff.TagStripByteCounts),
		"packed bits with a predictor": make1(tags(tiff.CompressionNone,
			tag{tiff.TagPredictor, tiff.TypeShort, []uint64{2}}),
			[][]byte{pix}),
		"tiles in the tags of strips": handmade(binary.LittleEndian,
			tags(tiff.CompressionNone, tag{tiff.TagTileWidth, tiff.TypeShort, []uint64{8}},
				tag{tiff.TagTileLength, tiff.TypeShort, []uint64{4}}),
			tiff.TagStripOffsets, tiff.TagStripByteCounts, strips(padded, 4)),
	} {
		f := openBytes(t, file)
		if got := readBand(t, f, 1); !bytes.Equal(got.Data, pix) {
			t.Errorf("%s: %v", name, got.Data)
		}
	}
}

func TestMissingTiles(t *testing.T) {
	for _, c := range []struct {
		nodata string
		want   byte
	}{{"", 0}, {"7", 7}, {"300", 255}, {"-5", 0}, {"nan", 0}} {
		tags := append(plain(4, 4, 8, 1, tiff.FormatUint, tiff.CompressionDeflate),
			tag{tiff.TagRowsPerStrip, tiff.TypeShort, []uint64{2}})
		if c.nodata != "" {
			var text []uint64
			for _, r := range c.nodata + "\x00" {
				text = append(text, uint64(r))
			}
			tags = append(tags, tag{tiff.TagGDALNodata, tiff.TypeASCII, text})
		}
		f := openBytes(t, handmade(binary.LittleEndian, tags, tiff.TagStripOffsets, tiff.TagStripByteCounts,
			[][]byte{deflated(count(8)), nil}))
		got := readBand(t, f, 1).Data
		if !bytes.Equal(got[:8], count(8)) || !bytes.Equal(got[8:], bytes.Repeat([]byte{c.want}, 8)) {
			t.Errorf("nodata %q: %v", c.nodata, got)
		}
	}
}

func TestOverviewsInSubIFDs(t *testing.T) {
	main := plain(8, 4, 8, 1, tiff.FormatUint, tiff.CompressionNone)
	half := append(plain(4, 2, 8, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagNewSubfileType, tiff.TypeLong, []uint64{tiff.SubfileReduced}})
	parts := [][][]byte{{count(32)}, {count(8)}}
	chain := handmadeChain(binary.LittleEndian, [][]tag{main, half}, tiff.TagStripOffsets, tiff.TagStripByteCounts,
		parts)
	first := binary.LittleEndian.Uint32(chain[4:])
	second := binary.LittleEndian.Uint32(chain[int(first)+2+12*int(binary.LittleEndian.Uint16(chain[first:])):])
	// The same with the offset of the second directory in a tag of the first, which makes that one
	// entry longer.
	nested := handmadeChain(binary.LittleEndian,
		[][]tag{append(main, tag{tiff.TagSubIFDs, tiff.TypeLong, []uint64{uint64(second) + 12}}), half},
		tiff.TagStripOffsets,
		tiff.TagStripByteCounts, parts)
	end := int(first) + 2 + 12*int(binary.LittleEndian.Uint16(nested[first:]))
	binary.LittleEndian.PutUint32(nested[end:], 0)
	for name, b := range map[string][]byte{"in the chain": chain, "below": nested} {
		f := openBytes(t, b)
		if z := f.Overviews(); len(z) != 1 || z[0] != (raster.Size{Width: 4, Height: 2}) {
			t.Fatalf("%s: overviews %v", name, z)
		}
		o, err := f.Overview(0)
		if err != nil {
			t.Fatal(err)
		}
		if got := readBand(t, o, 1); !bytes.Equal(got.Data, count(8)) {
			t.Errorf("%s: %v", name, got.Data)
		}
	}
}

func TestOverviewWithoutMaskOmitted(t *testing.T) {
	main := plain(8, 4, 8, 1, tiff.FormatUint, tiff.CompressionNone)
	mask := append(plain(8, 4, 8, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagNewSubfileType, tiff.TypeLong, []uint64{tiff.SubfileMask}})
	half := append(plain(4, 2, 8, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagNewSubfileType, tiff.TypeLong, []uint64{tiff.SubfileReduced}})
	b := handmadeChain(binary.LittleEndian, [][]tag{main, mask, half}, tiff.TagStripOffsets, tiff.TagStripByteCounts,
		[][][]byte{{count(32)}, {count(32)}, {count(8)}})
	f := openBytes(t, b)
	if f.Info().Mask != raster.MaskDataset || len(f.Overviews()) != 0 {
		t.Errorf("mask %v, overviews %v", f.Info().Mask, f.Overviews())
	}
	got := make([]byte, 32)
	if err := f.ReadMask(t.Context(), f.Info().Grid.Window(), got); err != nil {
		t.Fatal(err)
	}
	if got[0] != 0 || !bytes.Equal(got[1:], bytes.Repeat([]byte{255}, 31)) {
		t.Errorf("mask %v", got)
	}
}

func TestDamagedSidecars(t *testing.T) {
	for _, ext := range []string{".ovr", ".msk", ".aux.xml"} {
		path := filepath.Join(t.TempDir(), "a.tif")
		if err := os.WriteFile(path, little(nil, count(32)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+ext, []byte("not what it should be"), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, raster.ErrFormat) || !strings.Contains(err.Error(), path+ext) {
			t.Errorf("%s: %v", ext, err)
		}
	}
}

func TestFillBytes(t *testing.T) {
	for _, c := range []struct {
		typ  ndarray.DType
		text string
		want any
	}{
		{ndarray.Int16, "-9999", []int16{-9999}}, {ndarray.Int16, "1e9", []int16{32767}},
		{ndarray.Int16, "-1e9", []int16{-32768}},
		{ndarray.Float32, "nan", "nan"}, {ndarray.Uint64, "18446744073709551615", []uint64{1<<64 - 1}},
		{ndarray.Complex64, "3", []complex64{3}},
		{ndarray.Int8, "200", []int8{127}}, {ndarray.Uint16, "junk", []uint16{0}},
	} {
		p := fillBytes(c.typ, c.text)
		switch w := c.want.(type) {
		case []int16:
			if got := ndarray.Cast[int16](p); got[0] != w[0] {
				t.Errorf("%v %q: %v", c.typ, c.text, got)
			}
		case []int8:
			if int8(p[0]) != w[0] {
				t.Errorf("%v %q: %v", c.typ, c.text, p)
			}
		case []uint16:
			if got := ndarray.Cast[uint16](p); got[0] != w[0] {
				t.Errorf("%v %q: %v", c.typ, c.text, got)
			}
		case []uint64:
			if got := ndarray.Cast[uint64](p); got[0] != w[0] {
				t.Errorf("%v %q: %v", c.typ, c.text, got)
			}
		case []complex64:
			if got := ndarray.Cast[complex64](p); got[0] != w[0] {
				t.Errorf("%v %q: %v", c.typ, c.text, got)
			}
		default:
			if got := ndarray.Cast[float32](p); got[0] == got[0] {
				t.Errorf("%v %q: %v", c.typ, c.text, got)
			}
		}
	}
}
