package geotiff

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

// matrixFile is one line of the output of testdata/matrix.py.
type matrixFile struct {
	Name, Kind, Options string
	Shape               [3]int
	Mask                bool
	Overviews           [][2]int
}

// gdalMatrix creates the matrix of files and returns its directory.
func gdalMatrix(t testing.TB, seed string) (string, []matrixFile) {
	t.Helper()
	python := pytest.Python(t, "numpy", "osgeo.gdal_array")
	dir := t.TempDir()
	cmd := exec.Command(python, "testdata/matrix.py", dir, seed)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []matrixFile
	for _, line := range bytes.Split(bytes.TrimSpace(out), []byte("\n")) {
		var f matrixFile
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		files = append(files, f)
	}
	return dir, files
}

func TestReadGDALMatrix(t *testing.T) {
	dir, files := gdalMatrix(t, "1")
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range files {
		path := filepath.Join(dir, m.Name)
		f, err := Open(path)
		if err != nil {
			t.Errorf("%s %v: %v", m.Kind, m.Options, err)
			continue
		}
		if len(f.Overviews()) != len(m.Overviews) || (f.Info().Mask == raster.MaskDataset) != m.Mask {
			t.Errorf("%s: overviews %v mask %v, GDAL's are %v %v", m.Kind, f.Overviews(), f.Info().Mask, m.Overviews,
				m.Mask)
		}
		sources := []*File{f}
		names := []string{path}
		for i := range f.Overviews() {
			o, err := f.Overview(i)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, o.(*File))
			names = append(names, path+".ovr"+string(rune('0'+i)))
		}
		for i, s := range sources {
			raw := names[i] + ".raw"
			shape := m.Shape
			if i > 0 {
				shape[1], shape[2] = m.Overviews[i-1][0], m.Overviews[i-1][1]
			}
			want, err := os.ReadFile(raw)
			if err != nil {
				t.Fatal(err)
			}
			for range 6 {
				compareWindow(t, r, s, ndarray.FromBytes(s.Info().Bands[0].Type, want, shape[:]...), m)
			}
			if m.Mask {
				mask, err := os.ReadFile(names[i] + ".mask")
				if err != nil {
					t.Fatal(err)
				}
				compareMask(t, r, s, mask, m)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d files", len(files))
}

// randomWindow returns a random window of the raster, often all of it.
func randomWindow(r *rand.Rand, width, height int) raster.Window {
	if r.IntN(3) == 0 {
		return raster.Window{Width: width, Height: height}
	}
	w := raster.Window{Width: 1 + r.IntN(width), Height: 1 + r.IntN(height)}
	w.Col, w.Row = r.IntN(width-w.Width+1), r.IntN(height-w.Height+1)
	return w
}

// compareWindow reads a random window of random bands into an array with gaps and compares it.
func compareWindow(t *testing.T, r *rand.Rand, s *File, want *ndarray.Array, m matrixFile) {
	t.Helper()
	g := s.Info().Grid
	w := randomWindow(r, g.Width, g.Height)
	bands := r.Perm(want.Shape[0])[:1+r.IntN(want.Shape[0])]
	for i := range bands {
		bands[i]++
	}
	if r.IntN(4) == 0 {
		bands = append(bands, bands[0])
	}
	size := want.Type.Size()
	gap := r.IntN(3)
	big := ndarray.New(want.Type, len(bands), w.Height+gap, w.Width+gap)
	dst := &ndarray.Array{Type: want.Type, Shape: []int{len(bands), w.Height, w.Width}, Strides: big.Strides,
		Offset: gap * size, Data: big.Data}
	if err := s.Read(t.Context(), bands, w, dst); err != nil {
		t.Errorf("%s %s %s: %v", m.Name, m.Kind, m.Options, err)
		return
	}
	for i, b := range bands {
		for y := range w.Height {
			got := dst.Data[dst.Offset+i*dst.Strides[0]+y*dst.Strides[1]:][:w.Width*size]
			from := (((b-1)*g.Height+w.Row+y)*g.Width + w.Col) * size
			if !bytes.Equal(got, want.Data[from:from+len(got)]) {
				t.Errorf("%s %s %s: band %d row %d of window %v differs:\n got %v\nexpected %v", m.Name, m.Kind, m.Options,
					b, y, w, got[:min(40, len(got))], want.Data[from:from+min(40, len(got))])
				return
			}
		}
	}
}

func compareMask(t *testing.T, r *rand.Rand, s *File, want []byte, m matrixFile) {
	t.Helper()
	g := s.Info().Grid
	w := randomWindow(r, g.Width, g.Height)
	got := make([]byte, w.Width*w.Height)
	if err := s.ReadMask(t.Context(), w, got); err != nil {
		t.Errorf("%s: %v", m.Name, err)
		return
	}
	for y := range w.Height {
		from := (w.Row+y)*g.Width + w.Col
		if !bytes.Equal(got[y*w.Width:][:w.Width], want[from:from+w.Width]) {
			t.Errorf("%s %s %s: mask row %d of window %v differs", m.Name, m.Kind, m.Options, y, w)
			return
		}
	}
}
