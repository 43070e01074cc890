package apply

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"leat/internal/proctest"
	"leat/ndarray"
)

// wholeOverviewsJob returns a job whose records have the encoded tiles of all overviews that are
// whole in blocks with this side: none with 64, the first with 128, both with 256.
func wholeOverviewsJob(dir string, side int) Job {
	grid := mapGrid(500, 440, 0, 0)
	px := terrain[float32](500, 440, 5)
	return Job{Resume: true, Concurrency: Concurrency{Workers: 2},
		Controls: Controls{Grid: &grid, WindowWidth: side, WindowHeight: side},
		Outputs:  map[string]Output{"a": {Path: filepath.Join(dir, "a.tif"), TileSize: 64, Overviews: []int{2, 4}}},
		Func: func(_ context.Context, b *Block) error {
			b.SetOut("a", cut(px, grid.Width, grid.Height, b.Window))
			return nil
		}}
}

// wholeOverviews is a child that runs wholeOverviewsJob.
func wholeOverviews(args []string) error {
	side, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	_, err = Run(context.Background(), wholeOverviewsJob(args[0], side))
	return err
}

func TestResumeWholeOverviewTilesAfterKill(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	mustRun(t, wholeOverviewsJob(whole, 64))
	want := fileBytes(t, filepath.Join(whole, "a.tif"))
	for _, side := range []int{128, 256} {
		last := map[int]int{128: 16, 256: 4}[side]
		points := []struct {
			point string
			n     int
		}{{"apply.data", 2}, {"apply.record", last - 1}, {"apply.choice", 1}, {"apply.laid-out", 1}, {"apply.cleared", 1}}
		for _, at := range points {
			t.Run(fmt.Sprint(side, at.point), func(t *testing.T) {
				dir := t.TempDir()
				if killed, out, err := proctest.New("whole overviews", dir, fmt.Sprint(side)).KillAt(at.point,
					at.n).Start(t).Wait(); !killed {
					t.Fatalf("the child was not killed: %v\n%s", err, out)
				}
				res := mustRun(t, wholeOverviewsJob(dir, side))
				if done := map[string]int{"apply.record": 1, "apply.laid-out": last}[at.point]; res.Resumed < done {
					t.Errorf("%d blocks were resumed, expected %d", res.Resumed, done)
				}
				sameFileBytes(t, "resumed", filepath.Join(dir, "a.tif"), want)
				noTraces(t, dir)
			})
		}
	}
}

func TestBlocksForOverviews(t *testing.T) {
	for _, c := range []struct {
		what          string
		output        Output
		overlap, side int
		width, height int
	}{
		{"COG", Output{COG: true}, 0, 9000, 1024, 1024},
		{"default levels", Output{}, 0, 9000, 2048, 512},
		{"default levels, small tiles", Output{TileSize: 256}, 0, 9000, 1024, 1024},
		{"COG, small tiles", Output{COG: true, TileSize: 256}, 0, 9000, 2048, 512},
		{"no overviews", Output{Overviews: []int{}}, 0, 9000, 2048, 512},
		{"COG, overlap", Output{COG: true}, 4, 9000, 1024, 1024},
		{"COG, few blocks", Output{COG: true}, 0, 2000, 1024, 512},
	} {
		o := c.output
		o.Path, o.Type, o.Bands = filepath.Join(t.TempDir(), "o.tif"), ndarray.Uint8, 1
		job := sliceJob(mapGrid(c.side, c.side, 0, 0), []uint8{}, o)
		job.Concurrency.Workers, job.Controls.Overlap = 2, c.overlap
		p, err := MakePlan(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		if b := p.Blocks; b.WindowWidth != c.width || b.WindowHeight != c.height {
			t.Errorf("%s: blocks of %d x %d, expected %d x %d", c.what, b.WindowWidth, b.WindowHeight, c.width, c.height)
		}
	}
}
