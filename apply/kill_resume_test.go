package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/fault"
	"leat/internal/proctest"
)

// severalOutputs returns a job of 16 blocks with one, two or three outputs in dir. Spools are in
// tempDir, or next to the outputs if it is empty.
func severalOutputs(dir, tempDir string, outputs int) Job {
	grid := mapGrid(256, 256, 0, 0)
	px := terrain[uint16](256, 256, 3)
	job := Job{Outputs: map[string]Output{}, Resume: true, Concurrency: Concurrency{Workers: 2},
		Controls: Controls{Grid: &grid, WindowWidth: 64, WindowHeight: 64}}
	for i := range outputs {
		name := string(rune('a' + i))
		job.Outputs[name] = Output{Path: filepath.Join(dir, name+".tif"), TempDir: tempDir, TileSize: 64,
			Overviews: []int{2}}
	}
	job.Func = func(_ context.Context, b *Block) error {
		for name := range job.Outputs {
			b.SetOut(name, cut(px, grid.Width, grid.Height, b.Window))
		}
		return nil
	}
	return job
}

// resumedOutputs is a child that runs severalOutputs; with a fourth argument it removes the remains
// of them.
func resumedOutputs(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	job := severalOutputs(args[0], args[1], n)
	if len(args) > 3 {
		_, err = Discard(context.Background(), job.Outputs)
	} else {
		_, err = Run(context.Background(), job)
	}
	return err
}

// checkFinished checks that all outputs are complete and nothing else is left.
func checkFinished(t *testing.T, what, dir, tempDir string, outputs int, whole []byte) {
	t.Helper()
	for name, o := range severalOutputs(dir, tempDir, outputs).Outputs {
		sameFileBytes(t, what+": output "+name, o.Path, whole)
	}
	noTraces(t, dir)
	if tempDir != "" {
		noTraces(t, tempDir)
	}
}

func TestResumeAfterKillAtEveryPoint(t *testing.T) {
	wholeDir := t.TempDir()
	mustRun(t, severalOutputs(wholeDir, "", 1))
	whole := fileBytes(t, filepath.Join(wholeDir, "a.tif"))
	for outputs := 1; outputs <= 3; outputs++ {
		for _, elsewhere := range []bool{false, true} {
			if outputs != 2 && (elsewhere || !everyCase()) {
				continue
			}
			t.Run(fmt.Sprintf("%d outputs, tempDir %v", outputs, elsewhere), func(t *testing.T) {
				dirs := func() (dir, tempDir string) {
					if elsewhere {
						tempDir = t.TempDir()
					}
					return t.TempDir(), tempDir
				}
				passes := passesOf(t, func(point string, onBlock *atomic.Pointer[func()]) {
					dir, tempDir := dirs()
					job := severalOutputs(dir, tempDir, outputs)
					if point == "resumed" { // passes points that only a resumed run passes
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						done := 0
						stop := func() {
							if done++; done == 5 {
								cancel()
							}
						}
						onBlock.Store(&stop)
						if _, err := Run(ctx, job); !errors.Is(err, context.Canceled) {
							t.Fatal(err)
						}
						onBlock.Store(nil)
					}
					mustRun(t, job)
				})
				killed := 0
				for _, point := range slices.Sorted(maps.Keys(passes)) {
					last := passes[point]
					before := killed
					at := []int{1, min(2, last), max(min(2, last), last-1), last}
					if !everyCase() {
						at = []int{min(2, last), last}
					}
					for _, n := range slices.Compact(at) {
						dir, tempDir := dirs()
						what := fmt.Sprintf("killed at pass %d of %d of %s", n, last, point)
						if point == "apply.scanned" {
							proctest.New("resumed outputs", dir, tempDir, fmt.Sprint(outputs)).KillAt("apply.record",
								4).Start(t).Wait()
						}
						if was, _, _ := proctest.New("resumed outputs", dir, tempDir, fmt.Sprint(outputs)).KillAt(point,
							n).Start(t).Wait(); was {
							killed++
						}
						if _, err := Run(t.Context(), severalOutputs(dir, tempDir, outputs)); err != nil {
							t.Errorf("%s: %v", what, err)
							continue
						}
						checkFinished(t, what, dir, tempDir, outputs, whole)
					}
					if killed == before && strings.HasPrefix(point, "apply.") { // the others depend on other processes
						t.Errorf("no child was killed at %s", point)
					}
				}
				t.Logf("%d kills at %d points: %v", killed, len(passes), passes)
			})
		}
	}
}

// passesOf counts how often a run passes each named point. run may set a function to call when a
// block is done.
func passesOf(t *testing.T, run func(kind string, onBlock *atomic.Pointer[func()])) map[string]int {
	t.Helper()
	var onBlock atomic.Pointer[func()]
	counts := make(chan map[string]int, 1)
	counts <- map[string]int{}
	fault.Set(func(point string) error {
		m := <-counts
		m[point]++
		counts <- m
		if f := onBlock.Load(); f != nil && point == "apply.block-done" {
			(*f)()
		}
		return nil
	})
	defer fault.Set(nil)
	run("new", &onBlock)
	m := <-counts
	fresh := maps.Clone(m)
	counts <- m
	run("resumed", &onBlock)
	for point, n := range <-counts {
		if _, ok := fresh[point]; !ok {
			fresh[point] = n
		}
	}
	for _, point := range []string{"apply.started", "apply.record", "apply.published", "apply.cleared", "apply.removed",
		"apply.scanned"} {
		if fresh[point] == 0 {
			t.Fatalf("the run does not pass %s", point)
		}
	}
	return fresh
}

func TestResumeLoopEndsAfterRandomKills(t *testing.T) {
	t.Parallel()
	wholeDir := t.TempDir()
	mustRun(t, severalOutputs(wholeDir, "", 1))
	whole := fileBytes(t, filepath.Join(wholeDir, "a.tif"))
	rounds := proctest.Rounds(6, 20, 60)
	kills := 0
	var took time.Duration // of a run that is not killed
	for round := range rounds {
		outputs := 1 + round%3
		dir := t.TempDir()
		for attempt := 0; ; attempt++ { // until leat apply --resume; do :; done
			c := proctest.New("resumed outputs", dir, "", fmt.Sprint(outputs))
			start := time.Now()
			c.Start(t)
			if round > 0 && attempt < 4 {
				time.Sleep(time.Duration(rand.Int64N(int64(took) + 1)))
				c.Kill()
			}
			killed, out, err := c.Wait()
			if killed {
				kills++
				continue
			}
			if err != nil {
				t.Fatalf("round %d: %v: %s\n%s", round, err, out, fileNames(t, dir))
			}
			if round == 0 {
				took = time.Since(start)
			}
			break
		}
		checkFinished(t, fmt.Sprintf("round %d", round), dir, "", outputs, whole)
	}
	if kills == 0 {
		t.Error("no run was killed")
	}
	t.Logf("%d kills", kills)
}

// fileNames returns the names of the files in dir.
func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestResumeAfterKilledDiscard(t *testing.T) {
	t.Parallel()
	wholeDir := t.TempDir()
	mustRun(t, severalOutputs(wholeDir, "", 1))
	whole := fileBytes(t, filepath.Join(wholeDir, "a.tif"))
	for _, point := range []string{"apply.cleared", "apply.removed"} {
		for n := 1; n <= 3; n++ {
			dir := t.TempDir()
			if killed, out, _ := proctest.New("resumed outputs", dir, "", "3").KillAt("apply.record",
				30).Start(t).Wait(); !killed {
				t.Fatal(out)
			}
			if killed, out, _ := proctest.New("resumed outputs", dir, "", "3", "discard").KillAt(point,
				n).Start(t).Wait(); !killed {
				t.Fatal(out)
			}
			what := fmt.Sprintf("discarding was killed at pass %d of %s", n, point)
			if _, err := Run(t.Context(), severalOutputs(dir, "", 3)); err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			checkFinished(t, what, dir, "", 3, whole)
		}
	}
}
