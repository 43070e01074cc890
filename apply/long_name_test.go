package apply

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/outcome"
)

func TestResumeLongestName(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	grid := mapGrid(256, 256, 0, 0)
	px := terrain[uint8](256, 256, 1)
	for _, tempDir := range []string{"", elsewhere} {
		job := sliceJob(grid, px, Output{Path: filepath.Join(dir, strings.Repeat("n", 251)+".tif"), TileSize: 64,
			TempDir: tempDir, NoOverviews: true})
		job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
		job.Concurrency.Workers = 1
		job.Version = "1"
		whole := job.Func
		stop := errors.New("stopped")
		job.Func = func(ctx context.Context, b *Block) error {
			if b.Number == 9 {
				return stop
			}
			return whole(ctx, b)
		}
		var left *outcome.IncompleteError
		if _, err := Run(context.Background(), job); !errors.Is(err, stop) || !errors.As(err, &left) {
			t.Fatal(err)
		}
		job.Func, job.Resume = whole, true
		if res := mustRun(t, job); res.Resumed == 0 {
			t.Error("nothing was resumed")
		}
		samePixels(t, "resumed", 256, pixels[uint8](t, job.Outputs["out"].Path), px)
		noTraces(t, dir)
		noTraces(t, elsewhere)
	}
}
