package apply

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"leat/internal/proctest"
	"leat/raster"
)

func gridOf(w, h int) *raster.Grid { g := mapGrid(w, h, 0, 0); return &g }

// slowOutput is a child that writes args[0] block by block.
func slowOutput(args []string) error {
	job := slowJob(args[0])
	job.Resume = args[1] == "true"
	_, err := Run(context.Background(), job)
	return err
}

func slowJob(path string) Job {
	job := sliceJob(mapGrid(640, 640, 0, 0), terrain[uint16](640, 640, 3),
		Output{Path: path, TileSize: 64, Overviews: []int{2, 4}})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	work := job.Func
	job.Func = func(ctx context.Context, b *Block) error {
		proctest.Point("slow block")
		time.Sleep(500 * time.Microsecond)
		return work(ctx, b)
	}
	return job
}

func TestKillAtRandom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.tif")
	mustRun(t, slowJob(path))
	whole := fileBytes(t, path)
	old := fileBytes(t, write(t, filepath.Join(t.TempDir(), "old.tif"), mapGrid(30, 20, 0, 0),
		terrain[uint8](30, 20, 9), nil))
	rounds, interrupted, resumed := proctest.Rounds(5, 12, 30), 0, 0
	for round := range rounds {
		if err := os.WriteFile(path, old, 0o666); err != nil {
			t.Fatal(err)
		}
		resume := "false"
		if round%3 == 2 { // the remains of the round before, if any
			resume = "true"
		}
		c := proctest.New("slow output", path, resume)
		if round == 0 { // a point that comes before the end on every machine
			c.KillAt("slow block", 40)
		}
		c.Start(t)
		if round > 0 {
			time.Sleep(time.Duration(rand.IntN(180)) * time.Millisecond)
			c.Kill()
		}
		c.Wait()
		switch now := fileBytes(t, path); {
		case bytes.Equal(now, old):
			interrupted++
		case !bytes.Equal(now, whole):
			t.Fatal("the output is neither the old file nor the new one")
		}
		if round%3 == 1 {
			continue
		}
		job := slowJob(path)
		job.Resume = round%2 == 0
		resumed += mustRun(t, job).Resumed
		sameFileBytes(t, "the rerun", path, whole)
		noTraces(t, dir)
	}
	if interrupted == 0 || resumed == 0 {
		t.Errorf("none of %d kills came before the end, or none of their %d blocks was resumed", rounds, resumed)
	}
	t.Logf("%d kills, %d before the output was published; %d blocks were resumed", rounds, interrupted, resumed)
}
