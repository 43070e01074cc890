package apply

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// noisy returns few values, which compress best without a predictor; a ramp compresses best with
// one.
func noisy(w, h int, seed uint64) []uint8 {
	r := rand.New(rand.NewPCG(seed, 1))
	px := make([]uint8, w*h)
	for i := range px {
		px[i] = []uint8{10, 200, 30, 77}[r.IntN(4)]
	}
	return px
}

func ramp(w, h int) []uint8 {
	px := make([]uint8, w*h)
	for i := range px {
		px[i] = uint8(i%w*3 + i/w*5)
	}
	return px
}

func TestCodecChooser(t *testing.T) {
	t.Parallel()
	const w, h = 640, 640
	lateNoise := make([]uint8, w*h) // no samples until the last rows of tiles
	copy(lateNoise[w*448:], noisy(w, h, 7)[w*448:])
	for name, c := range map[string]struct {
		px        []uint8
		predictor int
		nodata    string
	}{
		"noise of few values":     {noisy(w, h, 1), 1, ""},
		"a ramp":                  {ramp(w, h), 2, ""},
		"noise after much nodata": {lateNoise, 1, "0"},
		"noise after much of one": {lateNoise, 1, ""},
		"nothing but nodata":      {make([]uint8, w*h), 2, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var first []byte
			for _, workers := range []int{1, 2, 8} {
				for _, window := range []int{64, 128, 640} {
					path := filepath.Join(t.TempDir(), "a.tif")
					job := sliceJob(mapGrid(w, h, 0, 0), c.px,
						Output{Path: path, TileSize: 64, Nodata: c.nodata, Overviews: []int{2, 8}})
					job.Controls.WindowWidth, job.Controls.WindowHeight = window, window
					job.Concurrency.Workers = workers
					res := mustRun(t, job)
					if got := res.Outputs[0].Coding; strings.Contains(got, "predictor 2") != (c.predictor == 2) {
						t.Fatalf("%s was chosen, not predictor %d", got, c.predictor)
					}
					if first == nil {
						first = fileBytes(t, path)
						samePixels(t, "pixels", w, pixels[uint8](t, path), c.px)
					} else {
						sameFileBytes(t, "other workers or windows", path, first)
					}
				}
			}
		})
	}
}

func TestEncodeAgain(t *testing.T) {
	// The first rows of tiles are spooled with the default predictor before a tile can be a sample;
	// decoded with the chosen predictor they would be other pixels.
	const w, h = 512, 512
	px := make([]uint8, w*h)
	for i := range px {
		px[i] = uint8(i / (w * 448) * 5)
		if i%w == 5 { // not constant, but below a tenth of valid pixels
			px[i] = uint8(i / w)
		}
	}
	copy(px[w*256:], noisy(w, h, 3)[w*256:])
	path := filepath.Join(t.TempDir(), "a.tif")
	job := sliceJob(mapGrid(w, h, 0, 0), px, Output{Path: path, TileSize: 64, Nodata: "0"})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	job.Concurrency.Workers = 1
	if res := mustRun(t, job); strings.Contains(res.Outputs[0].Coding, "predictor") {
		t.Fatal("the data did not bring about another choice than the default")
	}
	samePixels(t, "pixels", w, pixels[uint8](t, path), px)
}

func TestExplicitCoding(t *testing.T) {
	for _, o := range []Output{{Predictor: 1}, {Predictor: 2}, {Predictor: 2, Level: 9},
		{Compression: "zstd", Predictor: 1, Level: 5}, {Compression: "lzw", Predictor: 2}, {Compression: "none"},
		{Compression: "packbits"}} {
		o.Path, o.TileSize = filepath.Join(t.TempDir(), "a.tif"), 64
		res := mustRun(t, sliceJob(mapGrid(200, 200, 0, 0), noisy(200, 200, 1), o))
		c := res.Outputs[0].Coding
		if o.Predictor != 0 && strings.Contains(c, "predictor 2") != (o.Predictor == 2) ||
			o.Level != 0 && !strings.Contains(c, fmt.Sprintf("level %d", o.Level)) ||
			!strings.HasPrefix(c, cmp.Or(o.Compression, "deflate")) {
			t.Errorf("%+v gave %s", o, c)
		}
		samePixels(t, c, 200, pixels[uint8](t, o.Path), noisy(200, 200, 1))
	}
}
