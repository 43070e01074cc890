package tiffwrite

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/image/tiff/lzw"

	"leat/ndarray"
)

// decode decodes the bytes of Encode independently of this package, with other decompressors and
// with the predictors as the specification describes them.
func decode(framed []byte, s TileShape, c Coding) ([]byte, error) {
	n := int(binary.LittleEndian.Uint32(framed))
	if len(framed) != n+FrameBytes || !bytes.Equal(framed[n:n+4], framed[n+4:]) {
		return nil, fmt.Errorf("wrong frame: %d bytes for a tile of %d", len(framed), n)
	}
	body := framed[4 : 4+n]
	var out []byte
	var err error
	switch c.Compression {
	case None:
		out = bytes.Clone(body)
	case Deflate:
		r, e := zlib.NewReader(bytes.NewReader(body))
		if e != nil {
			return nil, e
		}
		out, err = io.ReadAll(r)
	case Zstd:
		d, e := zstd.NewReader(nil)
		if e != nil {
			return nil, e
		}
		defer d.Close()
		out, err = d.DecodeAll(body, nil)
	case LZW:
		out, err = io.ReadAll(lzw.NewReader(bytes.NewReader(body), lzw.MSB, 8))
	case PackBits:
		for i := 0; i < len(body); {
			k := int(int8(body[i]))
			if k >= 0 {
				out = append(out, body[i+1:i+2+k]...)
				i += 2 + k
			} else {
				out = append(out, bytes.Repeat(body[i+1:i+2], 1-k)...)
				i += 2
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if len(out) != s.Bytes() {
		return nil, fmt.Errorf("decoded %d bytes, expected %d", len(out), s.Bytes())
	}
	size, row := s.Type.Size(), s.Bytes()/s.Height
	for y := range s.Height {
		line := out[y*row : (y+1)*row]
		switch c.Predictor {
		case 2:
			for i := s.Samples; i < s.Width*s.Samples; i++ {
				carry := 0
				for k := range size { // bytewise addition, lowest byte first
					sum := int(line[i*size+k]) + int(line[(i-s.Samples)*size+k]) + carry
					line[i*size+k], carry = byte(sum), sum>>8
				}
			}
		case 3:
			for i := s.Samples; i < row; i++ {
				line[i] += line[i-s.Samples]
			}
			planes := bytes.Clone(line)
			n := s.Width * s.Samples
			for i := range n {
				for k := range size {
					line[i*size+k] = planes[(size-1-k)*n+i]
				}
			}
		}
	}
	return out, nil
}

// everyCoding returns the codings of a type: at default levels, and for two types at other levels.
func everyCoding(t ndarray.DType) []Coding {
	levels := []int{0}
	if t == ndarray.Uint16 || t == ndarray.Float32 {
		levels = []int{0, 1, 6, 8}
	}
	var all []Coding
	for _, c := range compressionNames() {
		for p := 1; p <= 3; p++ {
			for _, level := range levels {
				if k := (Coding{c, p, level}); k.Check(t) == nil {
					all = append(all, k)
				}
			}
		}
	}
	return all
}

// testTile returns a tile of one of several kinds, from constant to noise.
func testTile(r *rand.Rand, s TileShape, kind int) []byte {
	b := make([]byte, s.Bytes())
	for i := range b {
		switch kind {
		case 1:
			b[i] = byte(r.Uint32())
		case 2:
			b[i] = byte(i/s.Type.Size()/7 + i%s.Type.Size()*50 + r.IntN(2))
		case 3:
			b[i] = byte(i / 1000 * 37)
		case 4:
			if i/5000%2 == 0 {
				b[i] = byte(r.Uint32())
			}
		case 5: // noise of few values without repetitions: chunks coded by frequency
			b[i] = byte(r.NormFloat64() * 12)
		}
	}
	return b
}

const tileKinds = 6

func TestEncodeAllCodings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for typ := ndarray.Uint8; typ <= ndarray.Complex128; typ++ {
		for _, c := range everyCoding(typ) {
			for _, s := range []TileShape{{typ, 16, 16, 1}, {typ, 144, 80, 1}, {typ, 48, 32, 3}, {typ, 16, 16, 21}} {
				e := NewEncoder(s, c)
				for kind := range tileKinds {
					tile := testTile(r, s, kind)
					given := bytes.Clone(tile)
					framed, err := e.Encode(nil, tile)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(given, tile) {
						t.Fatalf("%v %v: Encode changed the tile", s, c)
					}
					got, err := decode(framed, s, c)
					if err != nil || !bytes.Equal(got, tile) {
						t.Fatalf("%v, %v, kind %d: decoded tile differs: %v", s, c, kind, err)
					}
				}
			}
		}
	}
}

func TestEncodeIsDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	s := TileShape{ndarray.Float32, 160, 144, 1} // two chunks of deflate
	for _, c := range everyCoding(s.Type) {
		used := NewEncoder(s, c)
		if d, ok := used.compress.(*deflater); ok {
			d.seen = renewAfter - 1<<20 // the compressor is replaced during the tile
		}
		for i := range 18 {
			tile := testTile(r, s, i%tileKinds)
			got, err := used.Encode([]byte("something before"), tile)
			if err != nil {
				t.Fatal(err)
			}
			want, err := NewEncoder(s, c).Encode(nil, tile)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got[len("something before"):], want) {
				t.Fatalf("%v: tile %d of a used encoder differs from that of a new one", c, i)
			}
		}
	}
}

func TestEncodeAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, typ := range []ndarray.DType{ndarray.Uint16, ndarray.Float32} {
		s := TileShape{typ, 128, 128, 1}
		tile := testTile(r, s, 5)
		for _, c := range compressionNames() {
			e := NewEncoder(s, defaultCoding(typ, c))
			out := make([]byte, 0, 2*s.Bytes())
			if n := testing.AllocsPerRun(20, func() {
				if _, err := e.Encode(out, tile); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%v %v: %v allocations per tile", typ, c, n)
			}
		}
	}
}

func TestDeflateCompressesNoise(t *testing.T) {
	// The fast levels of the compressor store such chunks uncompressed.
	r := rand.New(rand.NewPCG(4, 4))
	s := TileShape{ndarray.Uint16, 512, 512, 1}
	tile := testTile(r, s, 5)
	for _, c := range []Coding{{Deflate, 1, 1}, {Deflate, 1, 2}, {Deflate, 1, 6}, {Zstd, 1, 1}, {Zstd, 1, 3}} {
		out, err := NewEncoder(s, c).Encode(nil, tile)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > len(tile)*3/4 {
			t.Errorf("%v: encoded size %d of %d bytes", c, len(out), len(tile))
		}
	}
}

func TestCodingCheck(t *testing.T) {
	for _, c := range []struct {
		coding Coding
		typ    ndarray.DType
		want   string
	}{
		{Coding{Deflate, 3, 0}, ndarray.Uint16, "predictor 3 is for floats, not for uint16"},
		{Coding{Deflate, 2, 0}, ndarray.Complex64, "allow no predictor"},
		{Coding{PackBits, 2, 0}, ndarray.Uint8, "compression packbits allows no predictor"},
		{Coding{Deflate, 4, 0}, ndarray.Uint8, "predictor 4 (expected 1, 2 or 3)"},
		{Coding{Deflate, 1, 10}, ndarray.Uint8, "level 10 of deflate (expected 1 to 9)"},
		{Coding{LZW, 1, 3}, ndarray.Uint8, "compression lzw has no levels"},
		{Coding{"jpeg", 1, 0}, ndarray.Uint8, "unknown compression"},
		{Coding{}, ndarray.NoType, "element type is missing"},
	} {
		if err := c.coding.Check(c.typ); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %v: %v, expected %q", c.coding, c.typ, err, c.want)
		}
	}
	if _, err := NewEncoder(TileShape{ndarray.Uint8, 16, 16, 1}, Coding{}).Encode(nil, make([]byte, 255)); err == nil {
		t.Error("no error for a tile of the wrong size")
	}
}

func FuzzEncode(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint8(0), uint8(1), uint8(1), uint8(1))
	f.Add(bytes.Repeat([]byte{0, 1, 0, 7}, 300), uint8(9), uint8(1), uint8(3), uint8(2))
	f.Add([]byte("abcabcabcabc"), uint8(2), uint8(3), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed []byte, typ, compression, predictor, level uint8) {
		s := TileShape{ndarray.Uint8 + ndarray.DType(typ)%13, 16 * (1 + int(level)%3), 16 * (1 + int(typ)%4),
			1 + int(predictor)/4%3}
		c := Coding{compressions[int(compression)%len(compressions)].name, int(predictor)%3 + 1, int(level) % 10}
		if c.Check(s.Type) != nil || len(seed) == 0 {
			t.Skip()
		}
		tile := make([]byte, s.Bytes())
		for i := range tile {
			tile[i] = seed[i%len(seed)] + byte(i/len(seed)/3)
		}
		framed, err := NewEncoder(s, c).Encode(nil, tile)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(framed, s, c)
		if err != nil || !bytes.Equal(got, tile) {
			t.Fatalf("%v, %v: decoded tile differs: %v", s, c, err)
		}
	})
}
