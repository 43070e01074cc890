package npy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/internal/rastertest"
	"leat/ndarray"
	"leat/raster"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// save writes the pixels of a, (bands, rows, columns), in the given orders. With flat the file has
// two dimensions.
func save(t testing.TB, a *ndarray.Array, flat, fortran, big bool) string {
	t.Helper()
	bands, height, width := a.Shape[0], a.Shape[1], a.Shape[2]
	size := a.Type.Size()
	word := size
	if a.Type.IsComplex() {
		word /= 2
	}
	h := Header{Elem: ElemOfDType(a.Type), Shape: a.Shape, Fortran: fortran, BigEndian: big}
	if flat {
		h.Shape = a.Shape[1:]
	}
	file := appendHeader(t, h)
	body := make([]byte, len(a.Data))
	for b := range bands {
		for y := range height {
			for x := range width {
				at := (b*height+y)*width + x
				if fortran {
					at = (x*height+y)*bands + b
				}
				p := body[at*size:][:size]
				copy(p, a.Data[((b*height+y)*width+x)*size:])
				if big {
					for k := 0; k < size; k += word {
						slices.Reverse(p[k : k+word])
					}
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "a.npy")
	if err := os.WriteFile(path, append(file, body...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadAllTypesAndOrders(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for typ := ndarray.Uint8; typ <= ndarray.Complex128; typ++ {
		for _, fortran := range []bool{false, true} {
			for _, big := range []bool{false, true} {
				bands := 1 + r.IntN(3)
				t.Run(fmt.Sprintf("%v fortran %v big %v", typ, fortran, big), func(t *testing.T) {
					stored := ndarray.New(typ, bands, 1+r.IntN(40), 1+r.IntN(50))
					for i := range stored.Data {
						stored.Data[i] = byte(r.Uint32())
					}
					want := stored
					if typ == ndarray.Float16 {
						want = ndarray.New(ndarray.Float32, stored.Shape...)
						for i, v := range ndarray.Slice[uint16](stored) {
							ndarray.Slice[float32](want)[i] = ndarray.Float16ToFloat32(v)
						}
					}
					path := save(t, stored, bands == 1, fortran, big)
					rastertest.Run(t, func(t testing.TB) raster.Source {
						f, err := Open(path)
						if err != nil {
							t.Fatal(err)
						}
						return f
					}, want)
					local, err := Open(path)
					if err != nil {
						t.Fatal(err)
					}
					defer local.Close()
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					remote := rastertest.NewRemote(bytes.NewReader(b))
					f, err := OpenAt(remote, int64(len(b)), path)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					rastertest.Ranges(t, r, remote, f, local)
				})
			}
		}
	}
}

func TestReadNumPyFiles(t *testing.T) {
	dir := t.TempDir()
	pytest.Run(t, []string{"numpy"}, `
import json, os, sys
import numpy as np
os.chdir(json.load(sys.stdin))
a = np.arange(2*3*4).reshape(2, 3, 4)
np.save("c.npy", a.astype("<i4")); np.save("f.npy", np.asfortranarray(a.astype(">i4")))
np.save("two.npy", a[1].astype("<i4")); np.save("view.npy", a.transpose(0, 2, 1).astype("<i4"))
with open("v2.npy", "wb") as f: np.lib.format.write_array(f, a.astype("<i4"), version=(2, 0))
with open("v3.npy", "wb") as f: np.lib.format.write_array(f, a.astype("<i4"), version=(3, 0))
json.dump(None, sys.stdout)
`, dir, new(any))
	for name, at := range map[string]func(b, y, x int) int32{
		"c.npy":    func(b, y, x int) int32 { return int32(b*12 + y*4 + x) },
		"f.npy":    func(b, y, x int) int32 { return int32(b*12 + y*4 + x) },
		"v2.npy":   func(b, y, x int) int32 { return int32(b*12 + y*4 + x) },
		"v3.npy":   func(b, y, x int) int32 { return int32(b*12 + y*4 + x) },
		"two.npy":  func(_, y, x int) int32 { return int32(12 + y*4 + x) },
		"view.npy": func(b, y, x int) int32 { return int32(b*12 + x*4 + y) },
	} {
		f, err := Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		g := f.Info().Grid
		for b := range f.Info().Bands {
			a := ndarray.New(ndarray.Int32, 1, g.Height, g.Width)
			if err := f.Read(t.Context(), []int{b + 1}, g.Window(), a); err != nil {
				t.Fatal(err)
			}
			for i, v := range ndarray.Slice[int32](a) {
				if v != at(b, i/g.Width, i%g.Width) {
					t.Fatalf("%s: pixel %d of band %d is %d", name, i, b, v)
				}
			}
		}
		f.Close()
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := func(descr string, shape ...int) []byte {
		e, err := ParseElem(descr)
		if err != nil {
			t.Fatal(err)
		}
		return appendHeader(t, Header{Elem: e, Shape: shape})
	}
	head := func(shape ...int) []byte { return of("'<u2'", shape...) }
	for _, c := range []struct {
		path string
		is   error
		says string
	}{
		{filepath.Join(dir, "missing.npy"), fs.ErrNotExist, "no such file"},
		{dir, raster.ErrFormat, "is a directory"},
		{file("empty.npy", nil), raster.ErrFormat, "empty"},
		{file("other.npy", []byte("II*\x00 and so on")), raster.ErrFormat, "does not begin with"},
		{file("short.npy", head(100, 100)), raster.ErrFormat, "cut short"},
		{file("huge.npy", head(1<<31, 1<<30)), raster.ErrFormat, "cut short"},
		{file("none.npy", head(0, 5)), raster.ErrFormat, "no pixels"},
		{file("line.npy", append(head(1), 0, 0)), raster.ErrUnsupported, "1 dimensions"},
		{file("records.npy", append(of("[('a', '<u2')]", 1, 1), 0, 0)), raster.ErrUnsupported, "elements are [('a'"},
		{file("pairs.npy", append(of("[('a', '|b1')]", 1, 1), 0)), raster.ErrUnsupported, "elements are [('a'"},
		{file("cube.npy", append(head(1, 1, 1, 1), 0, 0)), raster.ErrUnsupported, "4 dimensions"},
	} {
		f, err := Open(c.path)
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v", filepath.Base(c.path), err)
		}
	}
}

func TestReadOfShrunkFile(t *testing.T) {
	path := save(t, ndarray.New(ndarray.Uint16, 1, 100, 100), true, false, false)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	err = f.Read(t.Context(), []int{1}, f.Info().Grid.Window(), ndarray.New(ndarray.Uint16, 1, 100, 100))
	if !errors.Is(err, raster.ErrFormat) {
		t.Errorf("the error is %v", err)
	}
}
