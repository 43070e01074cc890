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
	_, err := Run(context.Background(), slowJob(args[0]))
	return err
}

func slowJob(path string) Job {
	job := sliceJob(mapGrid(640, 640, 0, 0), terrain[uint16](640, 640, 3), Output{Path: path, TileSize: 64, Overviews: []int{2, 4}})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	work := job.Func
	job.Func = func(ctx context.Context, b *Block) error {
		time.Sleep(500 * time.Microsecond)
		return work(ctx, b)
	}
	return job
}

func TestAKilledRunLeavesTheOldFileOrTheNewOneAndARerunSucceeds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.tif")
	mustRun(t, slowJob(path))
	whole := fileBytes(t, path)
	old := fileBytes(t, write(t, filepath.Join(t.TempDir(), "old.tif"), mapGrid(30, 20, 0, 0), terrain[uint8](30, 20, 9), nil))
	kills, rounds, interrupted := 0, 30, 0
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		if err := os.WriteFile(path, old, 0o666); err != nil {
			t.Fatal(err)
		}
		c := proctest.New("slow output", path)
		c.Start(t)
		time.Sleep(time.Duration(rand.IntN(180)) * time.Millisecond)
		c.Kill()
		c.Wait()
		kills++
		switch now := fileBytes(t, path); {
		case bytes.Equal(now, old):
			interrupted++
		case !bytes.Equal(now, whole):
			t.Fatal("the output is neither the old file nor the new one")
		}
		mustRun(t, slowJob(path))
		sameFileBytes(t, "the rerun", path, whole)
		noTraces(t, dir)
	}
	if interrupted == 0 {
		t.Errorf("none of %d kills came before the end", kills)
	}
	t.Logf("%d kills, %d before the output was published", kills, interrupted)
}
