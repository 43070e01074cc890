package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"leat/apply"
	"leat/ndarray"
)

// fill returns a whole scene.
func fill(n, date int) (red, nir []uint16, class []uint8) {
	red, nir, class = make([]uint16, n*n), make([]uint16, n*n), make([]uint8, n*n)
	fillWindow(n, date, 0, 0, n, n, red, nir, class)
	return red, nir, class
}

func TestSceneIsTheSameEverywhere(t *testing.T) {
	red, nir, _ := fill(257, 0)
	h := sha256.New()
	for _, band := range [][]uint16{red, nir} {
		for _, v := range band {
			h.Write([]byte{byte(v), byte(v >> 8)})
		}
	}
	const want = "cef1115e0c6bd0363fda36d990ea08b592c4712fa2061b13aa56010335b1250b"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("hash %s, expected %s: the scene has changed, and with it every number measured on it", got, want)
	}
}

func TestWindowsHaveTheSamePixels(t *testing.T) {
	for date, n := range []int{64, 300, 1111} {
		red, nir, class := fill(n, date)
		for _, w := range [][4]int{{0, 0, n, n}, {n - 7, n - 9, 7, 9}, {13, 5, 41, 17}, {n / 2, n / 3, 1, 1}} {
			col, row, width, height := w[0], w[1], w[2], w[3]
			r, i, c := make([]uint16, width*height), make([]uint16, width*height), make([]uint8, width*height)
			fillWindow(n, date, col, row, width, height, r, i, c)
			for y := range height {
				at := (row+y)*n + col
				if !slices.Equal(r[y*width:(y+1)*width], red[at:at+width]) || !slices.Equal(i[y*width:(y+1)*width],
					nir[at:at+width]) || !slices.Equal(c[y*width:(y+1)*width], class[at:at+width]) {
					t.Fatalf("size %d window %v: row %d differs", n, w, y)
				}
			}
		}
	}
}

func TestNodataOnlyBeyondTheSwath(t *testing.T) {
	const n = 549
	red, nir, class := fill(n, 0)
	invalid := 0
	for i := range red {
		if (red[i] == 0) != (nir[i] == 0) || (red[i] == 0) != (class[i] == 0) {
			t.Fatalf("pixel %d: red %d, nir %d, class %d", i, red[i], nir[i], class[i])
		}
		if red[i] == 0 {
			invalid++
		}
	}
	if red[0] == 0 || red[n*n-1] != 0 || invalid < n*n/100 || invalid > n*n/20 {
		t.Errorf("%d pixels of nodata", invalid)
	}
}

func TestDatesHaveOtherCloudsAndHarvests(t *testing.T) {
	const n = 549
	red, _, class := fill(n, 0)
	later, _, laterClass := fill(n, 6)
	var cloudy, laterCloudy, both, harvested int
	for i := range class {
		a, b := class[i] >= classThinCloud, laterClass[i] >= classThinCloud
		cloudy, laterCloudy, both = cloudy+count(a), laterCloudy+count(b), both+count(a && b)
		clear := class[i] == classVegetation && laterClass[i] == classBare
		harvested += count(clear && later[i] > red[i]+300)
	}
	least, most := n*n/200, n*n/3
	if cloudy < least || cloudy > most || laterCloudy < least || laterCloudy > most || both > cloudy/2 {
		t.Errorf("clouds: %d pixels, then %d, %d of them the same", cloudy, laterCloudy, both)
	}
	if harvested < n*n/50 {
		t.Errorf("%d pixels were harvested", harvested)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestSceneFiles(t *testing.T) {
	const n = 700
	var blocks int
	scene, err := WriteScene(t.Context(), t.TempDir(), n, 0, "test", func(r *apply.Running) { blocks = len(r.Status().Blocks) })
	if err != nil {
		t.Fatal(err)
	}
	wantRed, wantNIR, _ := fill(n, 0)
	for path, want := range map[string][]uint16{scene.Red: wantRed, scene.NIR: wantNIR} {
		src, err := apply.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		info := src.Info()
		b := info.Bands[0]
		if b.Type != ndarray.Uint16 || b.Nodata == nil || b.Nodata.Float64() != 0 || b.Scale != 1e-4 ||
			b.Offset != -.1 || b.Name == "" {
			t.Errorf("%s: %+v", path, b)
		}
		if !info.Grid.CRS.Equal(Grid(n).CRS) || info.Grid.Transform != Grid(n).Transform || info.TileWidth != 512 {
			t.Errorf("%s: grid %+v, tiles of %d", path, info.Grid, info.TileWidth)
		}
		got := ndarray.New(ndarray.Uint16, 1, n, n)
		if err := src.Read(t.Context(), []int{1}, info.Grid.Window(), got); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ndarray.Slice[uint16](got), want) {
			t.Errorf("%s holds other pixels", path)
		}
	}
	if blocks == 0 {
		t.Error("progress was never called")
	}
}

func BenchmarkScene5490(b *testing.B) {
	const n = 5490
	red, nir, class := fill(n, 0)
	b.SetBytes(int64(len(ndarray.BytesOf(red)) * 2))
	for b.Loop() {
		fillWindow(n, 0, 0, 0, n, n, red, nir, class)
	}
}

func BenchmarkWriteScene5490(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		if _, err := WriteScene(b.Context(), dir, BaseSize, 0, "test", nil); err != nil {
			b.Fatal(err)
		}
	}
}
