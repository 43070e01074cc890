package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leat/internal/preview"
	"leat/timing"
)

// sampleReport is a report of a made-up run.
func sampleReport(t *testing.T) *Report {
	t.Helper()
	rec := timing.New()
	begin := time.Now()
	ms := func(f float64) time.Duration { return time.Duration(4 * f * 1e6) } // four, for a run of some seconds
	rec.Declare("reading", "computing", "encoding", "statistics", "overviews", "spooling", "laying out",
		"waiting to read", "waiting for input")
	for w := range 2 {
		at := 4.0
		for n := w; n < 60; n += 2 {
			lane := fmt.Sprintf("worker %d", w+1)
			for i, d := range []float64{1, 3.1, 5.3, 11.2, 1.1, .8, .6} {
				stage := []string{"waiting for input", "reading", "computing", "encoding", "statistics", "overviews",
					"spooling"}[i]
				l := lane
				if stage == "reading" {
					l = fmt.Sprintf("reader %d", w+1)
				}
				d *= 1 + .3*math.Sin(float64(n*7+i))
				rec.Record(stage, l, n, begin.Add(ms(at)), ms(d))
				at += d
			}
		}
	}
	rec.Record("laying out", "main", timing.NoBlock, begin.Add(ms(700)), ms(60))
	r := &Report{
		Command: `leat apply -i red=B04.tif -i nir=B08.tif -o ndvi=ndvi.tif -e '(nir - red) / (nir + red)' --report run.html`,
		Version: "1.0", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Cores: 2, Pixels: 5490 * 5490,
		Plan:  []Fact{{"grid", "5490 x 5490"}, {"blocks", "66 of 1024 x 512"}, {"workers", "2"}},
		Notes: []string{"window 500x500 rounded up to 512x512, whole output tiles"},
	}
	r.AddTimings(rec)
	r.Summary.Wall, r.Summary.CPU = ms(770), ms(1490)
	steps := timing.Series{Gauge: "blocks read ahead"}
	done := timing.Series{Gauge: PixelsDone}
	for i := range 100 {
		steps.Points = append(steps.Points,
			timing.Point{At: ms(float64(7 * i)), Value: int64(2 + 2*math.Sin(float64(i)/3))})
		done.Points = append(done.Points, timing.Point{At: ms(float64(7*i) + 5), Value: int64(i * 5490 * 55)})
	}
	memory, processor := timing.Series{Gauge: Memory}, timing.Series{Gauge: Processor}
	for i := range 30 {
		at := ms(float64(25 * i))
		memory.Points = append(memory.Points, timing.Point{At: at, Value: int64(50+10*i) << 20})
		processor.Points = append(processor.Points, timing.Point{At: at, Value: int64(45 * i * 4)})
	}
	r.Series = []timing.Series{steps, done, memory, processor}
	r.Summary.Gauges = []timing.GaugeSummary{{Gauge: "blocks read ahead", N: 100, Max: 4, Mean: 2.1},
		{Gauge: Memory, N: 30, Max: 340 << 20, Mean: 195 << 20}}
	h := &Histogram{Lo: -.2, Hi: .8}
	for i := range 256 {
		h.Counts = append(h.Counts, 1e5*math.Exp(-math.Pow(float64(i-190)/30, 2))+
			6e4*math.Exp(-math.Pow(float64(i-60)/20, 2)))
	}
	p := &preview.Preview{
		Image: image.NewNRGBA(image.Rect(0, 0, 700, 700)), Bands: []int{1},
		Ramp: preview.Ramp{{R: 140, A: 255}, {R: 253, G: 246, B: 205, A: 255}, {G: 82, A: 255}}, Lo: -1, Hi: 1,
	}
	f := func(v float64) *float64 { return &v }
	r.Outputs = []Raster{{Name: "ndvi", Path: "/data/ndvi.tif", Expression: "(nir - red) / (nir + red)", Preview: p,
		Facts: []Fact{{"size", "5490 x 5490 pixels, 1 band of float32"}, {"file", "GeoTIFF, 82.3 MiB"},
			{"crs", "EPSG:32631 (WGS 84 / UTM zone 31N)"},
			{"stored", "tiles of 512 x 512, deflate with predictor 3, 1.34 : 1"},
			{"overviews", "1373x1373 687x687 344x344 172x172"}, {"nodata", "nan"}, {"cog", "yes"}},
		Bands: []Band{{1, "", &Statistics{Min: f(-.21), Max: f(.83), Mean: f(.4312), StdDev: f(.213),
			ValidPercent: f(97.98)}, h}}}}
	r.Inputs = []Raster{{Name: "red", Path: "mem", Facts: []Fact{{"size", "10 x 10 pixels"}}}}
	return r
}

func renderText(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.render(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReportIsSelfContained(t *testing.T) {
	page := renderText(t, sampleReport(t))
	for _, bad := range []string{"http://", "https://", "<script ", "<link", "@import", "ZgotmplZ", "url(", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "data:image/png;base64,") && !strings.HasPrefix(m[1], "data:image/jpeg;base64,") {
			t.Errorf("the page refers to %.60q", m[1])
		}
	}
	for _, want := range []string{"Run done", "Encoding took", "lower quartile", "worker 2", "blocks read ahead",
		"Mpixel/s", "97.98", "window 500x500", "memory at most", "340 MiB", "Processor, of the main process"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestPixelsAreCounted(t *testing.T) {
	for _, c := range []struct {
		pixels            int64
		seconds           float64
		count, throughput string
	}{
		{9, .0068, "9", "&lt; 0.01 Mpixel/s"},
		{999_999, 2, "999999", "0.50 Mpixel/s"},
		{30_140_100, 10, "30.1 million", "3.0 Mpixel/s"},
		{999_499_999, 10, "999 million", "100 Mpixel/s"},
		{999_500_000, 10, "1 billion", "100 Mpixel/s"},
		{1_234_500_000_000, 60, "1234 billion", "20575 Mpixel/s"},
		{128_000_000_000, 60, "128 billion", "2133 Mpixel/s"},
	} {
		r := sampleReport(t)
		r.Pixels, r.Summary.Wall = c.pixels, time.Duration(c.seconds*float64(time.Second))
		page := renderText(t, r)
		for _, want := range []string{"<b>" + c.count + "</b><span>pixels<", "<b>" + c.throughput + "</b><span>throughput<"} {
			if !strings.Contains(page, want) {
				t.Errorf("%d pixels in %v s: the page lacks %q", c.pixels, c.seconds, want)
			}
		}
	}
}

func TestSmallPicturesAreNotSmoothed(t *testing.T) {
	for side, class := range map[int]string{3: "look small", 700: "look"} {
		r := sampleReport(t)
		r.Outputs[0].Preview.Image = image.NewNRGBA(image.Rect(0, 0, side, side))
		if page := renderText(t, r); !strings.Contains(page, `<img class="`+class+`" alt=`) {
			t.Errorf("a picture of %d pixels has not the class %q", side, class)
		}
	}
}

func TestChartsAreDescribedByNumbers(t *testing.T) {
	page := renderText(t, sampleReport(t))
	for _, want := range []string{
		`alt="quicklook of ndvi, colours from -1 to 1; band 1 from -0.21 to 0.83, mean 0.4312, 97.98 % valid"`,
		`aria-label="histogram from -0.2 to 0.8 in 256 bins, most pixels near 0.544"`,
		`aria-label="timeline of reader 1: reading `, `aria-label="throughput over time: mean `,
		`aria-label="memory over time: mean 195 MiB, at most 340 MiB"`,
		`aria-label="processor over time: mean 1.`, `aria-label="blocks read ahead over time: mean 2.1, at most 4"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestLongTextsAreFolded(t *testing.T) {
	r := sampleReport(t)
	long := "b[1]" + strings.Repeat(" + b[1]", 100)
	r.Outputs[0].Expression = long
	page := html.UnescapeString(renderText(t, r))
	if !strings.Contains(page, "<details><summary><code>b[1] + b[1]") || !strings.Contains(page, "<pre>"+long+"</pre>") {
		t.Error("the expression is not folded, or not there as a whole")
	}
}

func TestReportEscapesTexts(t *testing.T) {
	r := sampleReport(t)
	evil := `"><script>alert(1)</script>&`
	r.Command, r.Version, r.Err = evil, evil, evil
	r.Notes = []string{evil}
	r.Plan = []Fact{{evil, evil}}
	r.Outputs[0].Name, r.Outputs[0].Path, r.Outputs[0].Expression = evil, evil, evil
	r.Outputs[0].Bands[0].Name = evil
	r.Outputs[0].Facts = []Fact{{evil, evil}}
	r.Spans = []timing.Span{{Stage: evil, Lane: evil, Length: time.Second}}
	r.Series = []timing.Series{{Gauge: evil, Points: []timing.Point{{At: 0, Value: 1}}}}
	r.Summary.Stages = append(r.Summary.Stages, timing.StageSummary{Stage: evil, N: 1, Total: 1})
	page := renderText(t, r)
	if strings.Contains(page, "alert(1)</script>") || strings.Count(page, "<script") != 1 {
		t.Error("a text became markup")
	}
	if !strings.Contains(page, "Run failed") {
		t.Error("the page does not report the failure")
	}
}

func TestQuicklookKeepsItsLimit(t *testing.T) {
	const limit = 60 << 10
	noise := image.NewNRGBA(image.Rect(0, 0, 700, 500))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = uint8(r.Uint32())
	}
	for _, c := range []struct {
		img         image.Image
		kind        string
		wide, least int
	}{{image.NewNRGBA(image.Rect(0, 0, 700, 500)), "png", 700, 700}, {noise, "jpeg", 700, 100}} {
		address, err := quicklookURL(&preview.Preview{Image: c.img.(*image.NRGBA)}, limit)
		if err != nil {
			t.Fatal(err)
		}
		head, text, _ := strings.Cut(string(address), ",")
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(data) > limit || head != "data:image/"+c.kind+";base64" {
			t.Fatalf("%s of %d bytes: %v", head, len(data), err)
		}
		img, _, err := image.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if w := img.Bounds().Dx(); w > c.wide || w < c.least || img.Bounds().Dy() != w*5/7 && c.kind == "png" {
			t.Errorf("%s: bounds %v", c.kind, img.Bounds())
		}
	}
}

func TestEmptyReport(t *testing.T) {
	page := renderText(t, &Report{Err: "a.tif: no such file"})
	if !strings.Contains(page, "a.tif: no such file") {
		t.Error("the error is not on the page")
	}
}

func TestWriteIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.html")
	r := sampleReport(t)
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(got), "</html>\n") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := r.Write(filepath.Join(dir, "none", "run.html")); err == nil {
		t.Error("no error for a missing directory")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPageStaysSmall(t *testing.T) {
	r := sampleReport(t)
	r.Summary.Wall, r.Every, r.Spans = time.Hour, 16, nil
	for i := range 1 << 16 {
		r.Spans = append(r.Spans, timing.Span{Stage: []string{"reading", "computing"}[i%2],
			Lane: fmt.Sprintf("worker %d", i%64), Block: i, Start: time.Duration(i) * 50 * time.Millisecond,
			Length: 20 * time.Millisecond})
	}
	noise := r.Outputs[0].Preview.Image
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = uint8(random.Uint32()) | uint8(i&3/3*255)
	}
	for range 9 {
		r.Outputs = append(r.Outputs, r.Outputs[0])
	}
	if page := renderText(t, r); len(page) > 400_000 {
		t.Errorf("%d bytes", len(page))
	}
}

func TestStoredHistogram(t *testing.T) {
	items := func(lo, hi, values string) map[string]string {
		return map[string]string{"STATISTICS_HISTOMIN": lo, "STATISTICS_HISTOMAX": hi,
			"STATISTICS_HISTOBINVALUES": values}
	}
	if h := StoredHistogram(items("-1", "1", "1|2|3|")); h == nil || len(h.Counts) != 3 || h.Counts[2] != 3 {
		t.Errorf("histogram %+v", h)
	}
	for name, m := range map[string]map[string]string{
		"none": {}, "not a number": items("0", "1", "1|x|"), "negative": items("0", "1", "-1|2|"),
		"nan":      items("nan", "1", "1|2"),
		"too long": items("0", "1", strings.Repeat("1|", maxHistogramBins+1)), "infinite": items("-inf", "inf", "1|2"),
	} {
		if h := StoredHistogram(m); h != nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLanesSortByNumber(t *testing.T) {
	for _, c := range []struct {
		a, b string
		less bool
	}{{"worker 2", "worker 10", true}, {"reader 1", "worker 1", true}, {"worker 10", "worker 2", false},
		{"a", "a1", true}} {
		if got := naturally(c.a, c.b) < 0; got != c.less {
			t.Errorf("%q before %q: %v", c.a, c.b, got)
		}
	}
}

func TestRateOfCount(t *testing.T) {
	points := []timing.Point{{At: time.Second, Value: 1e6}, {At: 3 * time.Second, Value: 5e6},
		{At: 4 * time.Second, Value: 5e6}}
	rates := rateOf(points, 4*time.Second, 1e6)
	for i, want := range map[int]float64{0: 1, rateColumns / 2: 2, rateColumns - 1: 0} {
		if math.Abs(rates[i]-want) > 1e-6 {
			t.Errorf("part %d: %v, expected %v", i, rates[i], want)
		}
	}
}
