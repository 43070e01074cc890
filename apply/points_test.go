package apply

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"leat/internal/proctest"
	"leat/raster"
)

// pointJob writes two outputs and passes named points in every hook.
func pointJob(dir string) Job {
	px := terrain[uint16](256, 256, 3)
	hook := func(name string) func(*raster.Info) error {
		return func(*raster.Info) error { proctest.Point("before close " + name); return nil }
	}
	return Job{Controls: Controls{Grid: gridOf(256, 256), WindowWidth: 64, WindowHeight: 64},
		Outputs: map[string]Output{
			"a": {Path: filepath.Join(dir, "a.tif"), TileSize: 64, Overviews: []int{2, 4}, BeforeClose: hook("a"),
				HistAux: true},
			"b": {Path: filepath.Join(dir, "b.tif"), TileSize: 64, Overviews: []int{2, 4}, BeforeClose: hook("b")},
		},
		Setup: func(context.Context, WorkerInfo) (any, error) { proctest.Point("setup"); return nil, nil },
		Func: func(_ context.Context, b *Block) error {
			b.SetOut("a", cut(px, 256, 256, b.Window))
			proctest.Point("block")
			b.SetOut("b", cut(px, 256, 256, b.Window))
			b.Emit(1)
			return nil
		},
		Merge: func(int, any) error { proctest.Point("merge"); return nil },
	}
}

func pointOutputs(args []string) error {
	_, err := Run(context.Background(), pointJob(args[0]))
	return err
}

func TestKillAtPoint(t *testing.T) {
	fresh := t.TempDir()
	mustRun(t, pointJob(fresh))
	whole := fileBytes(t, filepath.Join(fresh, "a.tif"))
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(30, 20, 0, 0), terrain[uint8](30, 20, 9), nil)
	b := write(t, filepath.Join(dir, "b.tif"), mapGrid(30, 20, 0, 0), terrain[uint8](30, 20, 8), nil)
	oldA, oldB := fileBytes(t, a), fileBytes(t, b)
	for _, at := range []struct {
		point string
		pass  int
	}{{"setup", 1}, {"block", 1}, {"block", 7}, {"block", 16}, {"merge", 1}, {"merge", 16}, {"before close a", 1},
		{"before close b", 1}} {
		what := fmt.Sprintf("killed at %s, pass %d", at.point, at.pass)
		if killed, output, err := proctest.New("point outputs", dir).KillAt(at.point,
			at.pass).Start(t).Wait(); !killed {
			t.Fatalf("%s: the child was not: %v\n%s", what, err, output)
		}
		sameFileBytes(t, what, a, oldA)
		sameFileBytes(t, what, b, oldB)
	}
	mustRun(t, pointJob(dir))
	sameFileBytes(t, "the rerun", a, whole)
	noTraces(t, dir)
}
