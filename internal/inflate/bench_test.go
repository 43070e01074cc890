package inflate

import (
	"bytes"
	stdzlib "compress/zlib"
	"encoding/binary"
	"hash/adler32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
)

// tile is a zlib stream and the bytes that it decodes to.
type tile struct{ packed, raw []byte }

// scene is a satellite band of uint16 with its differences along the rows: noise in the low bytes.
func scene(width, height int) []byte {
	r := rand.New(rand.NewPCG(3, 9))
	out := make([]byte, 0, width*height*2)
	for y := range height {
		before := uint16(0)
		for x := range width {
			v := uint16(1500 + 900*math.Sin(float64(x)/97)*math.Cos(float64(y)/71) + 40*float64((x/31+y/23)%7) +
				r.NormFloat64()*12)
			out = binary.LittleEndian.AppendUint16(out, v-before)
			before = v
		}
	}
	return out
}

// floats is a band of float32 in -1..1 as predictor 3 leaves it: bytes of one weight side by side,
// their differences.
func floats(width, height int) []byte {
	r := rand.New(rand.NewPCG(4, 9))
	out := make([]byte, width*height*4)
	for y := range height {
		row := out[y*width*4:][:width*4]
		for x := range width {
			v := math.Float32bits(float32(0.4*math.Sin(float64(x)/97)*math.Cos(float64(y)/71) + r.NormFloat64()*0.01))
			for i := range 4 {
				row[i*width+x] = byte(v >> (24 - 8*i))
			}
		}
		for i := len(row) - 1; i > 0; i-- {
			row[i] -= row[i-1]
		}
	}
	return out
}

// classes is a map of a few land cover classes.
func classes(width, height int) []byte {
	out := make([]byte, width*height)
	for y := range height {
		for x := range width {
			out[y*width+x] = byte((x/41+y/29)%5 + (x*x+y*y)/9000%3)
		}
	}
	return out
}

func pack(t testing.TB, raw []byte, level int) tile {
	var z bytes.Buffer
	w, err := zlib.NewWriterLevel(&z, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(raw)
	w.Close()
	return tile{z.Bytes(), raw}
}

// tiffTiles reads the tiles of a little-endian classic TIFF, deflate only; nothing where it is
// another file.
func tiffTiles(t testing.TB, name string) (tiles []tile) {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	if len(b) < 8 || string(b[:4]) != "II*\x00" {
		return nil
	}
	for at := le.Uint32(b[4:]); at != 0 && int(at)+2 <= len(b); {
		n := int(le.Uint16(b[at:]))
		values := func(tag uint16) (v []int) {
			for i := range n {
				e := b[int(at)+2+12*i:][:12]
				if le.Uint16(e) != tag {
					continue
				}
				size := map[uint16]int{3: 2, 4: 4}[le.Uint16(e[2:])]
				count := int(le.Uint32(e[4:]))
				p := e[8:]
				if size*count > 4 {
					if p = b[le.Uint32(p):]; len(p) < size*count {
						return nil
					}
				}
				for i := range count {
					if size == 2 {
						v = append(v, int(le.Uint16(p[2*i:])))
					} else {
						v = append(v, int(le.Uint32(p[4*i:])))
					}
				}
			}
			return v
		}
		if c := values(259); len(c) == 1 && (c[0] == 8 || c[0] == 32946) {
			offsets, counts := append(values(324), values(273)...), append(values(325), values(279)...)
			for i, o := range offsets {
				if i >= len(counts) || counts[i] == 0 || o+counts[i] > len(b) {
					continue
				}
				packed := b[o : o+counts[i]]
				if r, err := stdzlib.NewReader(bytes.NewReader(packed)); err == nil {
					if raw, err := io.ReadAll(r); err == nil {
						tiles = append(tiles, tile{packed, raw})
					}
				}
			}
		}
		at = le.Uint32(b[int(at)+2+12*n:])
	}
	return tiles
}

// BenchmarkDecode compares with the stream readers, all of them reading whole tiles and their
// checksums. The files named in LEAT_TIFF, separated by colons, are read in addition to the made-up
// tiles.
func BenchmarkDecode(b *testing.B) {
	type input struct {
		name  string
		tiles []tile
	}
	inputs := []input{
		{"scene", []tile{pack(b, scene(512, 512), 6)}},
		{"floats", []tile{pack(b, floats(512, 512), 2)}},
		{"classes", []tile{pack(b, classes(512, 512), 6)}},
	}
	for _, name := range filepath.SplitList(os.Getenv("LEAT_TIFF")) {
		inputs = append(inputs, input{strings.TrimSuffix(filepath.Base(name), ".tif"), tiffTiles(b, name)})
	}
	for _, in := range inputs {
		total, largest := 0, 0
		for _, t := range in.tiles {
			total += len(t.raw)
			largest = max(largest, len(t.raw))
		}
		dst := make([]byte, largest)
		run := func(name string, decode func(dst, src []byte) error) {
			b.Run(in.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(total))
				b.ReportAllocs()
				for b.Loop() {
					for _, t := range in.tiles {
						if err := decode(dst[:len(t.raw)], t.packed); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
		var d Decoder
		run("here", func(dst, src []byte) error {
			_, err := d.Zlib(dst, src)
			return err
		})
		var p Pair
		b.Run(in.name+"/pair", func(b *testing.B) {
			other := make([]byte, largest)
			b.SetBytes(2 * int64(total))
			b.ReportAllocs()
			for b.Loop() {
				for i, t := range in.tiles {
					u := in.tiles[(i+1)%len(in.tiles)]
					_, errA, _, errB := p.Both(dst[:len(t.raw)], t.packed, other[:len(u.raw)], u.packed)
					if errA != nil || errB != nil {
						b.Fatal(errA, errB)
					}
				}
			}
		})
		var source bytes.Reader
		f := flate.NewReader(&source)
		run("klauspost-flate", func(dst, src []byte) error {
			source.Reset(src[2:])
			if err := f.(flate.Resetter).Reset(&source, nil); err != nil {
				return err
			}
			if _, err := io.ReadFull(f, dst); err != nil {
				return err
			}
			if adler32.Checksum(dst) != binary.BigEndian.Uint32(src[len(src)-4:]) {
				return ErrChecksum
			}
			return nil
		})
		run("klauspost-zlib", func(dst, src []byte) error {
			source.Reset(src)
			r, err := zlib.NewReader(&source)
			if err != nil {
				return err
			}
			_, err = io.ReadFull(r, dst)
			return err
		})
		run("stdlib", func(dst, src []byte) error {
			source.Reset(src)
			r, err := stdzlib.NewReader(&source)
			if err != nil {
				return err
			}
			_, err = io.ReadFull(r, dst)
			return err
		})
	}
}
