package npy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
	"leat/internal/rastertest"
	"leat/ndarray"
	"leat/raster"
)

// TestReadBools reads truth values of any byte as uint8: 0 as 0, all others as 1.
func TestReadBools(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, fortran := range []bool{false, true} {
		for bands := 1; bands <= 3; bands++ {
			for _, top := range []int{2, 3, 256} {
				t.Run(fmt.Sprintf("%d bands fortran %v bytes below %d", bands, fortran, top), func(t *testing.T) {
					stored := ndarray.New(ndarray.Uint8, bands, 1+r.IntN(40), 1+r.IntN(50))
					want := ndarray.New(ndarray.Uint8, stored.Shape...)
					for i := range stored.Data {
						stored.Data[i] = byte(r.IntN(top))
						if stored.Data[i] != 0 {
							want.Data[i] = 1
						}
					}
					path := save(t, stored, bands == 1, fortran, false)
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					b = bytes.Replace(b, []byte("'|u1'"), []byte("'|b1'"), 1)
					if err := os.WriteFile(path, b, 0o644); err != nil {
						t.Fatal(err)
					}
					opened := func(t testing.TB) raster.Source {
						f, err := Open(path)
						if err != nil {
							t.Fatal(err)
						}
						return f
					}
					rastertest.Run(t, opened, want)
					local := opened(t)
					defer local.Close()
					if band := local.Info().Bands[0]; band.Type != ndarray.Uint8 || band.Stored != "bool" {
						t.Errorf("the band is %+v", band)
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

func TestBoolsOfNumPy(t *testing.T) {
	dir := t.TempDir()
	var want []int
	pytest.Run(t, []string{"numpy"}, `
import json, os, sys
import numpy as np
os.chdir(json.load(sys.stdin))
a = np.arange(256).astype("u1").reshape(4, 64)
np.save("mask.npy", (a > 100)); np.save("view.npy", a.view(bool)); np.save("f.npy", np.asfortranarray(a.view(bool)))
json.dump([int(v) for n in ("mask", "view", "f") for v in np.load(n + ".npy").astype("u1").ravel()], sys.stdout)
`, dir, &want)
	for i, name := range []string{"mask", "view", "f"} {
		f, err := Open(filepath.Join(dir, name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		a := ndarray.New(ndarray.Uint8, 1, 4, 64)
		if err := f.Read(t.Context(), []int{1}, f.Info().Grid.Window(), a); err != nil {
			t.Fatal(err)
		}
		for j, v := range a.Data {
			if int(v) != want[256*i+j] {
				t.Fatalf("%s: pixel %d is %d, NumPy has %d", name, j, v, want[256*i+j])
			}
		}
		f.Close()
	}
}

// FuzzFile reads files of any bytes: whole and pixel by pixel, and truth values are 0 or 1.
func FuzzFile(f *testing.F) {
	for _, descr := range []string{"|b1", "<u1", ">i2", "<f2", "<c8"} {
		for _, shape := range []string{"(2, 3)", "(2, 1, 3)"} {
			for _, order := range []string{"False", "True"} {
				header := npy(1, "{'descr': '"+descr+"', 'fortran_order': "+order+", 'shape': "+shape+", }\n")
				f.Add(append(header, bytes.Repeat([]byte{0, 1, 2, 255}, 12)...))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := OpenAt(bytes.NewReader(b), int64(len(b)), "fuzz.npy")
		if err != nil {
			return
		}
		defer s.Close()
		g, band := s.Info().Grid, s.Info().Bands[0]
		if len(s.Info().Bands)*g.Width*g.Height > 1<<12 {
			return
		}
		size := band.Type.Size()
		for k := range s.Info().Bands {
			whole := ndarray.New(band.Type, 1, g.Height, g.Width)
			if err := s.Read(t.Context(), []int{k + 1}, g.Window(), whole); err != nil {
				t.Fatal(err)
			}
			for i := range g.Width * g.Height {
				pixel := ndarray.New(band.Type, 1, 1, 1)
				w := raster.Window{Col: i % g.Width, Row: i / g.Width, Width: 1, Height: 1}
				if err := s.Read(t.Context(), []int{k + 1}, w, pixel); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(pixel.Data, whole.Data[i*size:][:size]) {
					t.Fatalf("pixel %d of band %d is %x alone, %x with others", i, k+1, pixel.Data, whole.Data[i*size:][:size])
				}
				if band.Stored == "bool" && pixel.Data[0] > 1 {
					t.Fatalf("pixel %d is %d", i, pixel.Data[0])
				}
			}
		}
	})
}
