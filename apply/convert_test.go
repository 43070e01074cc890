package apply

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// asFloats returns what As sees of a raster of one block.
func asFloats[T float32 | float64](t *testing.T, in Input, c Controls) (px []T) {
	t.Helper()
	mustRun(t, Job{Inputs: map[string]Input{"a": in}, Controls: c, Func: func(_ context.Context, b *Block) error {
		px = append(px, As[T](b, "a")...)
		return nil
	}})
	return px
}

func checkAs[S ndarray.Real](t *testing.T, px []S, nodata string, invalid int) {
	t.Helper()
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(len(px), 1, 0, 0), px,
		func(o *Output) { o.Nodata = nodata })
	single, double := asFloats[float32](t, File(path), Controls{}), asFloats[float64](t, File(path), Controls{})
	for i, v := range px {
		if i == invalid {
			if single[i] == single[i] || double[i] == double[i] {
				t.Errorf("%T: the invalid pixel is %v and %v", v, single[i], double[i])
			}
			continue
		}
		if single[i] != float32(v) || double[i] != float64(v) {
			t.Errorf("%T: %v became %v and %v", v, v, single[i], double[i])
		}
	}
}

func TestAsConvertsAllTypes(t *testing.T) {
	checkAs(t, []uint8{0, 1, 255, 7}, "7", 3)
	checkAs(t, []int8{-128, 0, 127, 7}, "-128", 0)
	checkAs(t, []uint16{0, 65535, 7}, "7", 2)
	checkAs(t, []int16{-32768, 32767, 7}, "-32768", 0)
	checkAs(t, []uint32{0, math.MaxUint32, 7}, "7", 2)
	checkAs(t, []int32{math.MinInt32, math.MaxInt32, 7}, "7", 2)
	checkAs(t, []uint64{0, math.MaxUint64, 7}, "7", 2)
	checkAs(t, []int64{math.MinInt64, math.MaxInt64, 7}, "7", 2)
	checkAs(t, []float32{-1.5, float32(math.Inf(1)), 7}, "7", 2)
	checkAs(t, []float64{1e300, math.NaN(), 7}, "none", 1)
}

func TestAsScalesLikeExpressions(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "a.tif"), mapGrid(64, 48, 0, 0), terrain[int16](64, 48, 1), func(o *Output) {
		o.BeforeClose = func(i *raster.Info) error {
			i.Bands[0].Scale, i.Bands[0].Offset = 0.1, -3
			return nil
		}
	})
	out := filepath.Join(dir, "out.tif")
	mustRun(t, Job{Inputs: map[string]Input{"a": File(path)}, Outputs: map[string]Output{"x": {Path: out}},
		Expressions: map[string]string{"x": "a"}, Controls: Controls{Unscale: true}})
	samePixels(t, "scaled", 64, asFloats[float32](t, File(path), Controls{Unscale: true}), pixels[float32](t, out))
	if px := asFloats[float32](t, File(path), Controls{}); px[0] != float32(pixels[int16](t, path)[0]) {
		t.Errorf("without Unscale the first pixel is %v", px[0])
	}
}

func TestAsOutsideFileAndBands(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(2, 2, 0, 0), []int16{1, 2, 3, 4}, nil)
	b := write(t, filepath.Join(dir, "b.tif"), mapGrid(2, 2, 1, 1), []uint8{5, 6, 7, 8, 9, 10, 11, 12},
		func(o *Output) { o.Bands = 2 })
	mustRun(t, Job{Inputs: map[string]Input{"a": File(a), "b": File(b)}, Controls: Controls{Footprint: Union},
		Func: func(_ context.Context, bl *Block) error {
			nan := float32(math.NaN())
			samePixels(t, "a", 3, As[float32](bl, "a"), []float32{1, 2, nan, 3, 4, nan, nan, nan, nan})
			samePixels(t, "b", 3, AsBand[float32](bl, "b", 2), []float32{nan, nan, nan, nan, 9, 10, nan, 11, 12})
			return nil
		}})
	for want, f := range map[string]func(*Block){
		`input "b" has 2 bands`: func(bl *Block) { As[float32](bl, "b") },
		`band 3 of input "b"`:   func(bl *Block) { AsBand[float32](bl, "b", 3) },
		`band 0 of input "a"`:   func(bl *Block) { AsBand[float32](bl, "a", 0) },
	} {
		_, err := Run(t.Context(), Job{Inputs: map[string]Input{"a": File(a), "b": File(b)},
			Func: func(_ context.Context, bl *Block) error { f(bl); return nil }})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
}

// unscaledSource says 0 for the scale of its band, as a source that has none may.
type unscaledSource struct{ raster.Source }

func (s unscaledSource) Info() *raster.Info {
	i := *s.Source.Info()
	i.Bands = []raster.Band{i.Bands[0]}
	i.Bands[0].Scale, i.Bands[0].Offset = 0, 2
	return &i
}

func TestAsWithoutScale(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(3, 1, 0, 0), []uint8{5, 6, 7}, nil)
	in := Input{Files: []string{"a"}, Source: unscaledSource{open(t, path)}}
	samePixels(t, "offset alone", 3, asFloats[float32](t, in, Controls{Unscale: true}), []float32{7, 8, 9})
}
