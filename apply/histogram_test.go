package apply

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"leat/apply/outcome"
	"leat/internal/geotiff"
	"leat/ndarray"
)

func TestStatisticsMatchBruteForce(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		switch rapid.SampledFrom([]string{"uint8", "int8", "uint16", "int16", "int32", "float32", "float64"}).Draw(t,
			"type") {
		case "uint8":
			statisticsCase[uint8](t, dir, 0, 255)
		case "int8":
			statisticsCase[int8](t, dir, -128, 127)
		case "uint16":
			statisticsCase[uint16](t, dir, 0, 65535)
		case "int16":
			statisticsCase[int16](t, dir, -32768, 32767)
		case "int32":
			statisticsCase[int32](t, dir, -1e9, 1e9)
		case "float32":
			statisticsCase[float32](t, dir, -1e4, 1e5)
		case "float64":
			statisticsCase[float64](t, dir, -1e-3, 1e-3)
		}
	})
}

func statisticsCase[T ndarray.Real](t *rapid.T, dir string, least, most float64) {
	w, h := rapid.IntRange(1, 150).Draw(t, "width"), rapid.IntRange(1, 90).Draw(t, "height")
	bands := rapid.IntRange(1, 3).Draw(t, "bands")
	lo := rapid.Float64Range(least, most).Draw(t, "from")
	hi := rapid.Float64Range(lo, most).Draw(t, "to")
	o := Output{Path: filepath.Join(dir, "o.tif"), TileSize: 32, NoOverviews: true,
		PixelInterleave: rapid.Bool().Draw(t, "pixel interleave")}
	typ := ndarray.TypeOf[T]()
	nodata, has := T(5), rapid.Bool().Draw(t, "nodata")
	if has {
		o.Nodata = "5"
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	px := make([]T, bands*w*h)
	for i := range px {
		px[i] = T(lo + r.Float64()*(hi-lo))
		switch r.IntN(10) {
		case 0:
			px[i] = nodata
		case 1:
			if typ.IsFloat() {
				px[i] = T(nan())
			}
		}
	}
	job := sliceJob(mapGrid(w, h, 0, 0), px, o)
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 32
	res, err := Run(context.Background(), job)
	if err != nil {
		t.Fatal(err)
	}
	f, err := geotiff.Open(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := range bands {
		var valid []T
		notNumbers := int64(0)
		for _, v := range px[b*w*h : (b+1)*w*h] {
			switch {
			case v != v:
				notNumbers++
			case !has || v != nodata:
				valid = append(valid, v)
			}
		}
		got := res.Outputs[0].Bands[b]
		if got.Pixels != int64(w*h) || got.Valid != int64(len(valid)) || got.NaN != notNumbers {
			t.Fatalf("band %d: %d pixels, %d valid, %d NaN; there are %d, %d, %d", b+1, got.Pixels,
				got.Valid, got.NaN, w*h, len(valid), notNumbers)
		}
		if len(valid) > 0 {
			compareStatistics(t, got, valid, f.Info().Bands[b].Metadata)
		}
	}
}

func nan() float64 { return math.NaN() }

func compareStatistics[T ndarray.Real](t *rapid.T, got outcome.BandResult, valid []T, items map[string]string) {
	slices.Sort(valid)
	n, min, max := len(valid), float64(valid[0]), float64(valid[len(valid)-1])
	mean, spread := 0.0, 0.0
	for _, v := range valid {
		mean += float64(v) / float64(n)
	}
	for _, v := range valid {
		spread += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := math.Max(math.Abs(min), math.Abs(max))
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9*scale {
			t.Fatalf("%s is %v, not %v", what, got, want)
		}
	}
	if got.Min != min || got.Max != max {
		t.Fatalf("%v to %v, not %v to %v", got.Min, got.Max, min, max)
	}
	near("mean", got.Mean, mean)
	near("standard deviation", got.StdDev, math.Sqrt(spread/float64(n)))
	exact := ndarray.TypeOf[T]().IsInteger() && ndarray.TypeOf[T]().Size() <= 2
	counts := make([]uint64, 256)
	if exact && max-min < 256 {
		counts = counts[:int(max-min)+1]
	}
	frequency := map[T]int{}
	for _, v := range valid {
		k := 0
		switch {
		case len(counts) < 256 || exact && max-min == 255:
			k = int(float64(v) - min)
		case max > min:
			k = int((float64(v) - min) / (max - min) * 256)
		}
		if k == len(counts) {
			k--
		}
		counts[k]++
		frequency[v]++
	}
	var sum uint64
	for _, c := range got.Histogram.Counts {
		sum += c
	}
	if sum != uint64(n) {
		t.Fatalf("the bins hold %d of %d pixels", sum, n)
	}
	if exact {
		mode := valid[0]
		for _, v := range valid { // the smallest of the most frequent
			if frequency[v] > frequency[mode] {
				mode = v
			}
		}
		if !slices.Equal(got.Histogram.Counts,
			counts) || got.Mode != float64(mode) || got.Median != float64(valid[(n-1)/2]) {
			t.Fatalf("bins %v, mode %v, median %v; not %v, %v, %v", got.Histogram.Counts, got.Mode, got.Median, counts, mode,
				valid[(n-1)/2])
		}
	} else { // leading bits of a float32: within a 128th
		m := float64(valid[(n-1)/2])
		if math.Abs(got.Median-m) > math.Abs(m)/128+1e-30 {
			t.Fatalf("median %v, not about %v", got.Median, m)
		}
	}
	var text strings.Builder
	for _, c := range got.Histogram.Counts {
		fmt.Fprintf(&text, "%d|", c)
	}
	if items["STATISTICS_HISTOBINVALUES"] != text.String() || items["STATISTICS_MINIMUM"] != strconv.FormatFloat(min,
		'g', -1, 64) {
		t.Fatalf("the file says %v", items)
	}
}
