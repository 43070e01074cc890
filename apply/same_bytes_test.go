package apply

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/ndarray"
)

// setups returns ways to run a job that must not change its outputs.
func setups() []func(*Job) string {
	var list []func(*Job) string
	for _, w := range []int{1, 2, 8} {
		list = append(list, func(j *Job) string {
			j.Concurrency.Workers = w
			return fmt.Sprintf("%d workers", w)
		})
	}
	for _, r := range []int{1, 7} {
		list = append(list, func(j *Job) string {
			j.Concurrency.Readers = r
			return fmt.Sprintf("%d readers", r)
		})
	}
	for _, w := range [][2]int{{512, 512}, {500, 500}, {1024, 1024}, {2048, 512}, {1, 1}} {
		list = append(list, func(j *Job) string {
			j.Controls.WindowWidth, j.Controls.WindowHeight = w[0], w[1]
			j.Concurrency.Workers = 3
			return fmt.Sprintf("windows of %v", w)
		})
	}
	for _, m := range []int64{96, 128, 1024} {
		list = append(list, func(j *Job) string {
			j.Controls.MemoryBytes = m << 20
			j.Concurrency.Workers = 2
			return fmt.Sprintf("%d MiB", m)
		})
	}
	return list
}

// sameBytes runs a job, whose outputs are in the directory that make gets, in all setups.
func sameBytes(t *testing.T, make func(dir string) Job) {
	t.Helper()
	var want map[string][]byte
	ways := setups()
	if testing.Short() {
		ways = []func(*Job) string{ways[0], ways[2], ways[5], ways[7]}
	}
	for _, way := range ways {
		dir := t.TempDir()
		job := make(dir)
		name := way(&job)
		mustRun(t, job)
		noTraces(t, dir)
		if want == nil {
			want = map[string][]byte{}
			for n, o := range job.Outputs {
				want[n] = fileBytes(t, o.Path)
			}
			continue
		}
		for n, o := range job.Outputs {
			sameFileBytes(t, name, o.Path, want[n])
		}
	}
}

const bigWidth, bigHeight = 1930, 1290

// smallScene is scene with half of the rows and columns, which still make several blocks. All cases
// use the whole scene.
func smallScene(t testing.TB) (red, nir string) {
	t.Helper()
	if everyCase() {
		return scene(t)
	}
	return sceneOf(t, bigWidth/2, bigHeight/2)
}

// scene writes two bands of uint16 with nodata, in tiles that do not fit the outputs'.
func scene(t testing.TB) (red, nir string) {
	t.Helper()
	return sceneOf(t, bigWidth, bigHeight)
}

func sceneOf(t testing.TB, w, h int) (red, nir string) {
	t.Helper()
	dir := t.TempDir()
	grid := mapGrid(w, h, 0, 0)
	for i, p := range []*string{&red, &nir} {
		px := holes(terrain[uint16](w, h, uint64(i)), w, 50, 0, uint64(i))
		*p = write(t, filepath.Join(dir, fmt.Sprintf("b%d.tif", i)), grid, px, func(o *Output) {
			o.Nodata, o.Scale, o.Offset, o.Unit = "0", 0.0001, -0.1, "1"
			o.TileSize = []int{256, 208}[i]
		})
	}
	return red, nir
}

func TestSameBytesOfExpressions(t *testing.T) {
	t.Parallel()
	red, nir := smallScene(t)
	sameBytes(t, func(dir string) Job {
		return Job{
			Inputs: map[string]Input{"red": File(red), "nir": File(nir)},
			Expressions: map[string]string{"ndvi": "(nir - red) / (nir + red)", "both": "[red, nir + 1]",
				"high": "nir > red"},
			Outputs: map[string]Output{
				"ndvi": {Path: filepath.Join(dir, "ndvi.tif"), OverviewMethod: "average",
					Overviews: []int{2, 4, 512, 1024}},
				"both": {Path: filepath.Join(dir, "both.tif"), PixelInterleave: true, COG: true, Compression: "zstd"},
				"high": {Path: filepath.Join(dir, "high.tif"), OverviewMethod: "mode", TileSize: 256},
			},
		}
	})
}

func TestSameBytesWithOverlap(t *testing.T) {
	t.Parallel()
	red, nir := smallScene(t)
	sameBytes(t, func(dir string) Job {
		return Job{
			Inputs: map[string]Input{"s": Files(red, nir)},
			Outputs: map[string]Output{"sum": {Path: filepath.Join(dir, "sum.tif"), Nodata: "-1",
				OverviewMethod: "average"}},
			Controls: Controls{Overlap: 2},
			Func: func(_ context.Context, b *Block) error {
				out := b.NewOut(ndarray.Float32, 2)
				for k, a := range b.InList("s") {
					boxSum(ndarray.Slice[float32](out.At(k)), ndarray.Slice[uint16](a.At(0)),
						ndarray.Slice[uint8](b.ValidList("s")[k].At(0)), b.Columns(), 2)
				}
				b.SetOut("sum", out)
				return nil
			},
		}
	})
}

// boxSum computes the sum of the valid pixels of (2r+1) x (2r+1), or -1 if none is valid; it does
// not change the margin of dst.
func boxSum[T ndarray.Real](dst []float32, src []T, valid []uint8, width, r int) {
	height := len(src) / width
	for y := r; y < height-r; y++ {
		for x := r; x < width-r; x++ {
			sum, n := 0.0, 0
			for dy := -r; dy <= r; dy++ {
				for dx := -r; dx <= r; dx++ {
					if i := (y+dy)*width + x + dx; valid[i] != 0 {
						sum += float64(src[i])
						n++
					}
				}
			}
			if n == 0 {
				sum = -1
			}
			dst[y*width+x] = float32(sum)
		}
	}
}

func TestSameBytesForEveryCoding(t *testing.T) {
	const w, h = 1100, 700
	grid := mapGrid(w, h, 0, 0)
	px := append(terrain[int16](w, h, 1), holes(terrain[int16](w, h, 2), w, 9, -5, 3)...)
	for _, c := range []string{"deflate", "zstd", "lzw", "packbits", "none"} {
		for _, pixel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pixel interleave %v", c, pixel), func(t *testing.T) {
				t.Parallel()
				var want []byte
				for i, setup := range [][3]int{{1, 128, 128}, {8, 256, 512}, {3, 0, 0}} {
					o := Output{Path: filepath.Join(t.TempDir(), "o.tif"), Compression: c, PixelInterleave: pixel,
						TileSize: 128, Overviews: []int{2, 8}, Nodata: "-5"}
					job := sliceJob(grid, px, o)
					job.Concurrency.Workers, job.Controls.WindowWidth, job.Controls.WindowHeight = setup[0], setup[1],
						setup[2]
					mustRun(t, job)
					if i == 0 {
						want = fileBytes(t, o.Path)
						samePixels(t, c, w, pixels[int16](t, o.Path), px)
						i := open(t, o.Path).Info()
						if i.Compression != c || (i.Interleave == "pixel") != pixel || len(i.Overviews) != 2 {
							t.Errorf("the file has %s, %s interleave, %v", i.Compression, i.Interleave, i.Overviews)
						}
						continue
					}
					sameFileBytes(t, fmt.Sprint(setup), o.Path, want)
				}
			})
		}
	}
}

func TestBlockSizeRoundedUpToTiles(t *testing.T) {
	grid := mapGrid(5000, 5000, 0, 0)
	job := Job{Outputs: map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "o.tif"), Type: ndarray.Uint8}},
		Func:     nothing,
		Controls: Controls{Grid: &grid, WindowWidth: 500, WindowHeight: 500}}
	p, err := MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if p.Blocks.WindowWidth != 512 || p.Blocks.WindowHeight != 512 {
		t.Errorf("windows of %d x %d", p.Blocks.WindowWidth, p.Blocks.WindowHeight)
	}
	if !slices.ContainsFunc(noteTexts(p.Notes), func(n string) bool {
		return strings.Contains(n, "500x500") && strings.Contains(n,
			"512x512")
	}) {
		t.Errorf("the notes do not say so: %q", p.Notes)
	}
	job.Controls.WindowWidth, job.Controls.WindowHeight = 1024, 512
	if p, err = MakePlan(t.Context(), job); err != nil || len(p.Notes) > 0 {
		t.Errorf("a window of whole tiles is noted: %v %q", err, p.Notes)
	}
}
