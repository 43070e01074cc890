package preview

import (
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"leat/internal/driver"
	"leat/internal/rastertest"
	"leat/ndarray"
	"leat/raster"
)

func makePreview(t *testing.T, src raster.Source, side int) *Preview {
	t.Helper()
	p, err := New(t.Context(), src, side)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPreviewFileIsAPNGOfTheWantedSize(t *testing.T) {
	src := rastertest.NewMem(3000, 1500, 1, func(_, row, col int) uint16 { return uint16(col + row) })
	path := filepath.Join(t.TempDir(), "q.png")
	if err := Write(t.Context(), path, src, 0); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if img.Bounds() != image.Rect(0, 0, 1024, 512) {
		t.Errorf("bounds %v", img.Bounds())
	}
	l, _, _, _ := img.At(0, 0).RGBA()
	r, _, _, _ := img.At(1023, 511).RGBA()
	if l != 0 || r != 0xffff {
		t.Errorf("corners %d and %d", l, r)
	}
}

func TestAPreviewInAMissingDirIsAnErrorThatNamesIt(t *testing.T) {
	src := rastertest.NewMem(3, 3, 1, func(_, row, col int) uint8 { return 1 })
	if err := Write(t.Context(), filepath.Join(t.TempDir(), "none", "q.png"), src, 0); err == nil {
		t.Fatal("no error")
	}
}

func TestInvalidPixelsAreTransparentAndDoNotCount(t *testing.T) {
	nodata := ndarray.ScalarOf[int16](-999)
	src := rastertest.NewMem(40, 40, 1, func(_, row, col int) int16 {
		if col < 20 || col == 30 {
			return -999
		}
		return int16(100 + row)
	})
	src.Raster.Bands[0].Nodata = &nodata
	p := makePreview(t, src, 20) // each cell of 2x2 pixels
	if a := p.Image.NRGBAAt(9, 5).A; a != 0 {
		t.Errorf("nodata has alpha %d", a)
	}
	if a := p.Image.NRGBAAt(15, 5).A; a != 255 {
		t.Errorf("a half valid cell has alpha %d", a)
	}
	if p.Lo < 100 || p.Hi > 140 {
		t.Errorf("stretched from %v to %v", p.Lo, p.Hi)
	}
	if p.Image.NRGBAAt(15, 5) != p.Image.NRGBAAt(12, 5) {
		t.Error("nodata took part in a mean")
	}
}

func TestNaNAndInfiniteAreTransparent(t *testing.T) {
	src := rastertest.NewMem(3, 1, 1, func(_, row, col int) float32 {
		return []float32{float32(math.NaN()), float32(math.Inf(1)), 5}[col]
	})
	p := makePreview(t, src, 0)
	for col, want := range []uint8{0, 0, 255} {
		if a := p.Image.NRGBAAt(col, 0).A; a != want {
			t.Errorf("column %d has alpha %d, expected %d", col, a, want)
		}
	}
}

func TestAMaskAndAnAlphaBandMakeTransparent(t *testing.T) {
	src := rastertest.NewMem(4, 1, 1, func(_, row, col int) uint8 { return uint8(col) })
	src.Raster.Mask = raster.MaskDataset
	src.Mask = []byte{255, 0, 255, 0}
	p := makePreview(t, rastertest.MaskedMem{Mem: src}, 0)
	rgba := rastertest.NewMem(4, 1, 4, func(b, row, col int) uint16 {
		if b == 3 {
			return []uint16{1, 0, 65535, 0}[col]
		}
		return uint16(col)
	})
	rgba.Raster.Mask = raster.MaskAlpha
	rgba.Raster.Bands[3].Color = raster.ColorAlpha
	q := makePreview(t, rgba, 0)
	for col, want := range []uint8{255, 0, 255, 0} {
		if a := p.Image.NRGBAAt(col, 0).A; a != want {
			t.Errorf("mask: column %d has alpha %d", col, a)
		}
		if a := q.Image.NRGBAAt(col, 0).A; a != want {
			t.Errorf("alpha band: column %d has alpha %d", col, a)
		}
	}
	if len(q.Bands) != 3 {
		t.Errorf("shows bands %v", q.Bands)
	}
}

func TestAColourTableIsShownUnreduced(t *testing.T) {
	src := rastertest.NewMem(100, 100, 1, func(_, row, col int) uint8 { return uint8(col % 2 * 7) })
	src.Raster.Bands[0].Colors = make([]raster.RGBA, 8)
	src.Raster.Bands[0].Colors[0] = raster.RGBA{R: 1, G: 2, B: 3, A: 255}
	src.Raster.Bands[0].Colors[7] = raster.RGBA{R: 200, G: 100, B: 50, A: 255}
	p := makePreview(t, src, 33)
	for i := range 33 {
		switch c := p.Image.NRGBAAt(i, i); c {
		case color.NRGBA{1, 2, 3, 255}, color.NRGBA{200, 100, 50, 255}:
		default:
			t.Fatalf("colour %v is not in the table", c)
		}
	}
}

func TestBandsAreChosenByTheirMeaning(t *testing.T) {
	for _, c := range []struct {
		name   string
		colors []raster.Color
		want   int
		first  int
	}{
		{"one band", []raster.Color{"undefined"}, 1, 1},
		{"two bands", []raster.Color{"undefined", "undefined"}, 1, 1},
		{"three bands", []raster.Color{"gray", "undefined", "undefined"}, 3, 1},
		{"blue, green, red, nir", []raster.Color{"blue", "green", "red", "undefined"}, 3, 3},
		{"thirteen bands", make([]raster.Color, 13), 1, 1},
		{"gray and alpha", []raster.Color{"gray", "alpha"}, 1, 1},
		{"alpha first", []raster.Color{"alpha", "gray"}, 1, 2},
	} {
		info := &raster.Info{}
		for _, col := range c.colors {
			info.Bands = append(info.Bands, raster.Band{Color: col})
		}
		got := shownBands(info)
		if len(got) != c.want || got[0] != c.first {
			t.Errorf("%s: shows %v", c.name, got)
		}
	}
}

func TestTheRampFollowsTheValues(t *testing.T) {
	for _, c := range []struct {
		name   string
		lo, hi float32
		ramp   Ramp
	}{
		{"elevations", 200, 900, blueYellowRamp},
		{"a vegetation index", -0.1, 0.9, redGreenRamp},
		{"differences", -50, 60, redGreenRamp},
		{"temperatures, hardly below zero", -2, 60, blueYellowRamp},
		{"all negative", -0.9, -0.1, blueYellowRamp},
	} {
		src := rastertest.NewMem(101, 1, 1, func(_, _, col int) float32 { return c.lo + (c.hi-c.lo)*float32(col)/100 })
		p := makePreview(t, src, 0)
		if &p.Ramp[0] != &c.ramp[0] {
			t.Errorf("%s: another ramp, from %v to %v", c.name, p.Lo, p.Hi)
		}
		if &p.Ramp[0] == &redGreenRamp[0] && p.Lo != -p.Hi {
			t.Errorf("%s: zero is not in the middle of %v to %v", c.name, p.Lo, p.Hi)
		}
	}
}

func TestTheSmallestOverviewThatIsLargeEnoughIsRead(t *testing.T) {
	reads := 0
	value := func(_, row, col int) uint8 { return uint8(row) }
	src := rastertest.NewMem(800, 800, 1, value)
	src.PixelsRead = &reads
	for _, n := range []int{400, 200, 100} {
		src.Raster.Overviews = append(src.Raster.Overviews, raster.Size{Width: n, Height: n})
		o := rastertest.NewMem(n, n, 1, value)
		o.PixelsRead = &reads
		src.Smaller = append(src.Smaller, o)
	}
	makePreview(t, src, 150)
	if reads != 200*200 {
		t.Errorf("%d pixels read", reads)
	}
}

func TestTheReadingWindowOfAPreviewStaysWithinItsBound(t *testing.T) {
	for _, c := range []struct{ w, h, tw, th, most int }{
		{100, 80, 100, 1, 1 << 20}, {100, 80, 100, 1, 250}, {100, 80, 32, 32, 3500}, {100, 80, 32, 32, 1100},
		{100, 80, 32, 32, 50}, {7, 5, 512, 512, 1000}, {100, 80, 100, 80, 30},
	} {
		info := &raster.Info{TileWidth: c.tw, TileHeight: c.th, Grid: raster.Grid{Width: c.w, Height: c.h}}
		w, h := driver.ScanWindow(info, c.most)
		if w < 1 || h < 1 || w > c.w || h > c.h || w*h > c.most {
			t.Errorf("%+v: window of %d x %d", c, w, h)
		}
	}
}

func TestEveryTypeOfPixelIsShown(t *testing.T) {
	check := func(src *rastertest.Mem) {
		p := makePreview(t, src, 0)
		if p.Image.NRGBAAt(0, 0) == p.Image.NRGBAAt(9, 0) || p.Image.NRGBAAt(5, 0).A != 255 {
			t.Errorf("%v is not shown", src.Raster.Bands[0].Type)
		}
	}
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) uint8 { return uint8(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) int8 { return int8(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) uint16 { return uint16(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) int16 { return int16(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) uint32 { return uint32(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) int32 { return int32(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) uint64 { return uint64(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) int64 { return int64(c) }))
	check(rastertest.NewMem(10, 1, 1, func(_, _, c int) float64 { return float64(c) }))
	half := rastertest.NewMem(10, 1, 1, func(_, _, c int) uint16 { return ndarray.Float32ToFloat16(float32(c)) })
	half.Arrays[0].Type, half.Raster.Bands[0].Type = ndarray.Float16, ndarray.Float16
	check(half)
	c64 := rastertest.NewMem(10, 1, 1, func(_, _, c int) float64 { return 0 })
	z := make([]complex64, 10)
	for i := range z {
		z[i] = complex(0, float32(i))
	}
	c64.Arrays[0], c64.Raster.Bands[0].Type = ndarray.FromSlice(z, 1, 10), ndarray.Complex64
	check(c64)
}

func TestARasterWithoutValidPixelsGivesATransparentPreview(t *testing.T) {
	src := rastertest.NewMem(5, 5, 1, func(_, _, _ int) float32 { return float32(math.NaN()) })
	p := makePreview(t, src, 0)
	for _, v := range p.Image.Pix {
		if v != 0 {
			t.Fatal("something is shown")
		}
	}
}

// TestAPreviewOfValuesWhoseDifferenceIsInfinite reduces them too, to sums that are infinite or NaN.
func TestAPreviewOfValuesWhoseDifferenceIsInfinite(t *testing.T) {
	src := rastertest.NewMem(400, 4, 1, func(_, row, col int) float64 {
		if col/100%2 == 0 {
			return -1.5e308
		}
		return 1.5e308
	})
	for _, side := range []int{400, 40, 2} {
		img := makePreview(t, src, side).Image
		if left, right := img.NRGBAAt(0, 0), img.NRGBAAt(side-1, 0); left.A == 0 || side > 2 && left == right {
			t.Errorf("%d columns: colours %v and %v", side, left, right)
		}
	}
}
