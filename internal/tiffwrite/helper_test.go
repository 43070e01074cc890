package tiffwrite

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// picture is the image that a test writes: pixels (bands, rows, columns) and mask of each level.
type picture struct {
	spec   FileSpec
	pixels [][]byte
}

func compressionNames() (names []string) {
	for _, c := range compressions {
		names = append(names, c.name)
	}
	return names
}

// newPicture returns a picture of the spec with smooth values and some noise, so that every coding
// finds matches and literals. Floats include NaN.
func newPicture(spec FileSpec, seed uint64) *picture {
	r := rand.New(rand.NewPCG(seed, 7))
	p := &picture{spec: spec}
	for level := range 1 + len(spec.Levels) {
		z := spec.Size(level)
		p.pixels = append(p.pixels, randomPixels(r, spec, z))
	}
	return p
}

func randomPixels(r *rand.Rand, spec FileSpec, z raster.Size) []byte {
	size := spec.Type.Size()
	out := make([]byte, spec.Bands*z.Width*z.Height*size)
	for i := 0; i < len(out); i += size {
		n := i / size
		v := uint64(n/5+n/z.Width) + r.Uint64N(5)
		for k := range size {
			out[i+k] = byte(v >> (8 * k))
		}
		if spec.Type.IsFloat() { // near 1, with several digits
			out[i+size-1], out[i+size-2] = 0x3c, byte(n%7)
		}
		if r.IntN(50) == 0 {
			for k := range size {
				out[i+k] = byte(r.Uint32())
			}
		}
	}
	return out
}

// cut returns the pixels of one tile, zeros outside the level.
func (p *picture) cut(level, plane, column, row int) []byte {
	s, z := &p.spec, p.spec.Size(level)
	size := s.Type.Size()
	shape := s.Shape()
	out := make([]byte, shape.Bytes())
	for y := range min(s.TileHeight, z.Height-row*s.TileHeight) {
		for x := range min(s.TileWidth, z.Width-column*s.TileWidth) {
			for b := range shape.Samples {
				from := (((plane+b)*z.Height+row*s.TileHeight+y)*z.Width + column*s.TileWidth + x) * size
				copy(out[((y*s.TileWidth+x)*shape.Samples+b)*size:][:size], p.pixels[level][from:])
			}
		}
	}
	return out
}

type tileKey struct {
	level int
	index int
}

// spool encodes all tiles in random order with gaps between some of them, as if they came from many
// workers.
func (p *picture) spool(t testing.TB, seed uint64) (*os.File, TileSource) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	s := &p.spec
	var keys []tileKey
	for level := range 1 + len(s.Levels) {
		for i := range s.tilesOf(level) {
			keys = append(keys, tileKey{level, i})
		}
	}
	if seed != 0 {
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	enc := NewEncoder(s.Shape(), s.Coding)
	at := map[tileKey]TileRef{}
	var b []byte
	for _, k := range keys {
		if seed != 0 && r.IntN(3) == 0 {
			b = append(b, "record"...)
		}
		start := len(b)
		columns, rows := s.TileGrid(k.level)
		column, row, plane := k.index%columns, k.index/columns%rows, k.index/columns/rows
		if s.TileIndex(k.level, plane, column, row) != k.index {
			t.Fatalf("TileIndex(%d, %d, %d, %d) is not %d", k.level, plane, column, row, k.index)
		}
		var err error
		if b, err = enc.Encode(b, p.cut(k.level, plane, column, row)); err != nil {
			t.Fatal(err)
		}
		at[k] = TileRef{int64(start), int64(len(b) - start)}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f, func(level, index int) TileRef { return at[tileKey{level, index}] }
}

// write writes the picture to path, with tiles spooled in an order given by seed.
func (p *picture) write(t testing.TB, path string, seed uint64) {
	t.Helper()
	p.spec.Path = path
	src, tiles := p.spool(t, seed)
	dst, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	n, err := Write(t.Context(), dst, &p.spec, src, tiles)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := dst.Stat(); err != nil || info.Size() != n {
		t.Fatalf("Write said %d bytes, the file has %v (%v)", n, info.Size(), err)
	}
}

// bytesOf writes the picture and returns the bytes of the file.
func (p *picture) bytesOf(t testing.TB, seed uint64) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.tif")
	p.write(t, path, seed)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b)
}

// defaultCoding returns the coding that suits pixels of type t in most rasters.
func defaultCoding(t ndarray.DType, compression string) Coding {
	all := Candidates(t, compression)
	return all[len(all)-1]
}
