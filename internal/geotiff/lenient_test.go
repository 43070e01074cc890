package geotiff

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/internal/tiff"
	"leat/ndarray"
)

// oldLZW encodes as programs before TIFF 5 did: least significant bit first, with codes that grow
// one code later.
func oldLZW(src []byte) []byte {
	var out []byte
	var acc, have uint
	width := uint(9)
	emit := func(code int) {
		acc |= uint(code) << have
		for have += width; have >= 8; have -= 8 {
			out = append(out, byte(acc))
			acc >>= 8
		}
	}
	table, next := map[string]int{}, 258
	clear256 := func() {
		emit(tiff.LZWClear)
		width, next = 9, 258
		clear(table)
	}
	code := func(s string) int {
		if len(s) == 1 {
			return int(s[0])
		}
		return table[s]
	}
	clear256()
	s := ""
	for _, b := range src {
		if t := s + string([]byte{b}); len(t) == 1 || table[t] != 0 {
			s = t
			continue
		}
		emit(code(s))
		table[s+string([]byte{b})] = next
		// The decoder is one entry behind.
		if next++; next > 1<<width && width < 12 {
			width++
		}
		s = string([]byte{b})
		if next == 4094 {
			emit(code(s))
			s = ""
			clear256()
		}
	}
	if s != "" {
		emit(code(s))
	}
	emit(tiff.LZWEnd)
	return append(out, byte(acc))
}

// lenientFiles returns TIFFs that violate the specification but that libtiff reads.
func lenientFiles() map[string][]byte {
	const w, h = 16, 20
	pix := make([]byte, w*h)
	for i := range pix {
		pix[i] = byte(i*7%253 + i/40)
	}
	packed := func(b []byte) (out []byte) { // literal runs of a row
		for row := range slices.Chunk(b, w) {
			out = append(append(out, byte(len(row)-1)), row...)
		}
		return out
	}
	same := func(b []byte) []byte { return b }
	files := map[string][]byte{}
	tiled := func(compression uint64) []tag {
		return append(plain(w, h, 8, 1, tiff.FormatUint, compression),
			tag{tiff.TagTileWidth, tiff.TypeShort, []uint64{16}},
			tag{tiff.TagTileLength, tiff.TypeShort, []uint64{16}})
	}
	strips := func(rows, compression uint64) []tag {
		return append(plain(w, h, 8, 1, tiff.FormatUint, compression),
			tag{tiff.TagRowsPerStrip, tiff.TypeShort, []uint64{rows}})
	}
	cut := func(rows int, pack func([]byte) []byte) (out [][]byte) {
		for b := pix; len(b) > 0; b = b[min(len(b), rows*w):] {
			out = append(out, pack(b[:min(len(b), rows*w)]))
		}
		return out
	}
	for name, c := range map[string]struct {
		tag  uint64
		pack func([]byte) []byte
	}{"none": {tiff.CompressionNone, same}, "packbits": {tiff.CompressionPackBits, packed},
		"deflate": {tiff.CompressionDeflate, deflated},
		"old lzw": {tiff.CompressionLZW, oldLZW}} {
		files[name+", the last tile ends with the image"] = handmade(binary.LittleEndian, tiled(c.tag),
			tiff.TagTileOffsets,
			tiff.TagTileByteCounts, cut(16, c.pack))
		inner := cut(16, c.pack)
		inner[0] = c.pack(pix[:13*w])
		files[name+", the first tile ends early"] = handmade(binary.LittleEndian, tiled(c.tag), tiff.TagTileOffsets,
			tiff.TagTileByteCounts, inner)
		files[name+", one strip of 0 bytes"] = handmade(binary.LittleEndian,
			append(strips(h, c.tag), tag{tiff.TagStripByteCounts, tiff.TypeLong, []uint64{0}}),
			tiff.TagStripOffsets, tiff.TagStripByteCounts, cut(h, c.pack))
		four := cut(5, c.pack)
		for n := 1; n < 4; n++ {
			counts := make([]uint64, n)
			for i := range counts {
				counts[i] = uint64(len(four[i]))
			}
			files[fmt.Sprintf("%s, %d byte counts of 4", name, n)] = handmade(binary.BigEndian,
				append(strips(5, c.tag), tag{tiff.TagStripByteCounts, tiff.TypeLong, counts}),
				tiff.TagStripOffsets, tiff.TagStripByteCounts, four)
		}
		var surplus [][]byte // each strip holds a row too many
		for at := 0; at < len(pix); at += 5 * w {
			surplus = append(surplus, c.pack(append(bytes.Clone(pix[at:at+5*w]), pix[:w]...)))
		}
		files[name+", strips with surplus rows"] = handmade(binary.LittleEndian, strips(5, c.tag), tiff.TagStripOffsets,
			tiff.TagStripByteCounts, surplus)
		ten, six := cut(2, c.pack), make([]uint64, 6)
		for i := range six {
			six[i] = uint64(len(ten[i]))
		}
		files[name+", 6 byte counts of 10"] = handmade(binary.LittleEndian,
			append(strips(2, c.tag), tag{tiff.TagStripByteCounts, tiff.TypeLong, six}),
			tiff.TagStripOffsets, tiff.TagStripByteCounts, ten)
		files[name+", one strip"] = handmade(binary.LittleEndian, strips(h, c.tag), tiff.TagStripOffsets,
			tiff.TagStripByteCounts,
			cut(h, c.pack))
	}
	two := cut(10, same)
	for _, typ := range []uint16{tiff.TypeByte, tiff.TypeSByte, tiff.TypeUndefined, tiff.TypeSShort, tiff.TypeSLong,
		tiff.TypeSLong8} {
		// The offset 8 and the size of the first strip are below 256, and for a signed byte below
		// 128.
		rows, n := 10, 168
		if typ == tiff.TypeSByte {
			rows, n = 5, 88
		}
		chunks := cut(rows, same)
		offsets := make([]uint64, len(chunks))
		for i := range offsets {
			offsets[i] = uint64(8 + i*(n-8))
		}
		if typ == tiff.TypeSByte {
			offsets, chunks = offsets[:2], chunks[:2]
		}
		tags := append(plain(w, uint64(rows*len(chunks)), 8, 1, tiff.FormatUint, tiff.CompressionNone),
			tag{tiff.TagRowsPerStrip, tiff.TypeShort, []uint64{uint64(rows)}},
			tag{tiff.TagStripOffsets, typ, offsets})
		files[fmt.Sprintf("offsets of type %d", typ)] = handmade(binary.LittleEndian, tags, tiff.TagStripOffsets,
			tiff.TagStripByteCounts, chunks)
	}
	files["byte counts of type BYTE"] = handmade(binary.LittleEndian,
		append(strips(10, tiff.CompressionNone), tag{tiff.TagStripByteCounts, tiff.TypeByte, []uint64{160, 160}}),
		tiff.TagStripOffsets, tiff.TagStripByteCounts, two)

	large := make([]byte, 300*200) // clears the LZW table many times
	for i := range large {
		large[i] = byte(i*i>>9 ^ i%7)
	}
	for _, fill := range []uint64{1, 2} {
		data := oldLZW(large)
		if fill == 2 {
			for i, b := range data {
				data[i] = bits.Reverse8(b)
			}
		}
		files[fmt.Sprintf("old lzw, large, fill order %d", fill)] = handmade(binary.LittleEndian,
			append(plain(300, 200, 8, 1, tiff.FormatUint, tiff.CompressionLZW),
				tag{tiff.TagFillOrder, tiff.TypeShort, []uint64{fill}}),
			tiff.TagStripOffsets, tiff.TagStripByteCounts, [][]byte{data})
	}
	return files
}

func TestOddTIFFsReadAsGDAL(t *testing.T) {
	python := pytest.Python(t, "osgeo.gdal")
	dir := t.TempDir()
	names := map[string]string{} // by path
	args := []string{"testdata/read_pixels.py"}
	for name, file := range lenientFiles() {
		path := filepath.Join(dir, strings.NewReplacer(" ", "_", ",", "").Replace(name)+".tif")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		names[path] = name
		args = append(args, path)
	}
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := 0
	for path, name := range names {
		t.Run(name, func(t *testing.T) {
			var got []byte
			f, err := Open(path)
			if err == nil {
				defer f.Close()
				g := f.Info().Grid
				a := ndarray.New(f.Info().Bands[0].Type, 1, g.Height, g.Width)
				err = f.Read(t.Context(), []int{1}, g.Window(), a)
				got = a.Data
			}
			want, none := os.ReadFile(path + ".raw")
			switch {
			case name == "none, the first tile ends early",
				name == "offsets of type 7": // GDAL reads the bytes behind the tile, and the header
				if checkKind(t, err); err == nil {
					t.Error("leat reads bytes that are not the tile's")
				}
			case none != nil && err == nil:
				t.Error("leat reads what GDAL does not")
			case none != nil:
				checkKind(t, err)
			case err != nil:
				t.Errorf("GDAL reads it: %v", err)
			case !bytes.Equal(got, want):
				t.Errorf("pixels differ from GDAL's:\n%v\n%v", got, want)
			default:
				read++
			}
			if missing := strings.Contains(name,
				"byte counts of 4"); err == nil && missing != (len(f.Info().Warnings) > 0) {
				t.Errorf("warnings: %q", f.Info().Warnings)
			}
		})
	}
	if read < 25 {
		t.Errorf("%d files were read by both", read)
	}
}

func TestOldLZW(t *testing.T) {
	for _, n := range []int{1, 2, 255, 256, 257, 511, 5000, 70000} {
		src := make([]byte, n)
		for i := range src {
			src[i] = byte(i * i >> 5)
		}
		got := make([]byte, n)
		if err := new(tiff.Decoder).Decompress(tiff.CompressionLZW, got, oldLZW(src), n); err != nil ||
			!bytes.Equal(got, src) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestIncompleteWorldFiles(t *testing.T) {
	python := pytest.Python(t, "osgeo.gdal")
	dir := t.TempDir()
	raw := handmade(binary.LittleEndian, plain(4, 4, 8, 1, tiff.FormatUint, tiff.CompressionNone), tiff.TagStripOffsets,
		tiff.TagStripByteCounts, [][]byte{make([]byte, 16)})
	good := "2\n0\n0\n-2\n500\n600\n"
	for name, c := range map[string]struct {
		tfw, wld string
		warnings int
	}{
		"five":   {"1\n0\n0\n-1\n5\n", "", 1},
		"empty":  {"\n", "", 1},
		"words":  {"a\nb\nc\nd\ne\nf\n", "", 1},
		"second": {"1\n", good, 1},
		"commas": {"1,5\n0\n0\n-1,5\n5\n6\n", "", 0},
		"good":   {good, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name+".tif")
			for suffix, text := range map[string]string{".tif": string(raw), ".tfw": c.tfw, ".wld": c.wld} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name+suffix), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command(python, "testdata/read_pixels.py", path).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var want *[6]float64
			if text, err := os.ReadFile(path + ".grid"); err == nil {
				if err := json.Unmarshal(text, &want); err != nil {
					t.Fatal(err)
				}
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			g := f.Info().Grid
			if g.HasTransform != (want != nil) || want != nil && [6]float64(g.Transform) != *want {
				t.Errorf("transform %v %v, GDAL's is %v", g.HasTransform, g.Transform, want)
			}
			if w := f.Info().Warnings; len(w) != c.warnings || len(w) == 1 && !strings.Contains(w[0],
				name+".tfw ignored") {
				t.Errorf("warnings: %q", w)
			}
		})
	}
}
