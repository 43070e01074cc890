package stores

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/apply"
	"leat/apply/outcome"
)

// halves returns a job of a file above and one below. It is cancelled after a number of blocks, 0
// for never.
func halves(t *testing.T, s *shop, out, stageDir string, done int) (*apply.Result, error) {
	t.Helper()
	stores := newStores(t, stageDir)
	job := apply.Job{
		Inputs:      map[string]apply.Input{"a": apply.File(s.url("a.tif")), "b": apply.File(s.url("b.tif"))},
		Outputs:     map[string]apply.Output{"out": {Path: out, TileSize: 64, TempDir: filepath.Dir(out)}},
		Expressions: map[string]string{"out": "coalesce(a, b)"},
		Controls:    apply.Controls{Footprint: apply.Union, WindowWidth: 64, WindowHeight: 64},
		Concurrency: apply.Concurrency{Workers: 1, Readers: 1},
		Open:        stores.Open, Store: stores, Resume: done == 0,
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if done > 0 {
		afterBlocks(t, int64(done), func() { cancel(stop) })
	}
	res, err := apply.Run(ctx, job)
	if done > 0 && !errors.Is(err, stop) {
		t.Fatal(err)
	}
	return res, err
}

func TestResumeSkipsFinishedInputs(t *testing.T) {
	s := newShop(t)
	upper, lower := testGrid, testGrid
	upper.Height, lower.Height = 256, testGrid.Height-256
	lower.Transform = testGrid.Transform.Shift(0, 256)
	scene(t, s.path("a.tif"), upper, 1, 1, nil)
	scene(t, s.path("b.tif"), lower, 1, 2, nil)
	for _, staged := range []bool{true, false} {
		stage := func() string {
			if staged {
				return filepath.Join(t.TempDir(), "stage")
			}
			return ""
		}
		dir := t.TempDir()
		want := filepath.Join(dir, "want.tif")
		if _, err := halves(t, s, want, stage(), 0); err != nil {
			t.Fatal(err)
		}
		got := filepath.Join(dir, "got.tif")
		_, err := halves(t, s, got, stage(), 60)
		var left *outcome.IncompleteError
		if !errors.As(err, &left) || left.Done < 60 {
			t.Fatalf("%+v: %v", left, err)
		}
		s.reset()
		res, err := halves(t, s, got, stage(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if res.Resumed != left.Done {
			t.Errorf("%d blocks were resumed, %d were there", res.Resumed, left.Done)
		}
		sameFile(t, got, want)
		st, err := os.Stat(s.path("a.tif"))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.sent("a.tif"); n > 70000 || n > st.Size()/2 {
			t.Errorf("staged %v: %d of %d bytes of a file were sent that no block needs", staged, n, st.Size())
		}
		if n := s.sent("b.tif"); n == 0 {
			t.Error("nothing was sent of the file that blocks need")
		}
	}
	// A file that was replaced, and a server that sends no versions.
	dir := t.TempDir()
	out := filepath.Join(dir, "o.tif")
	_, _ = halves(t, s, out, "", 60)
	now := time.Now().Add(-time.Minute)
	if err := os.Chtimes(s.path("b.tif"), now, now); err != nil {
		t.Fatal(err)
	}
	_, err := halves(t, s, out, "", 0)
	if e := new(outcome.ResumeError); !errors.As(err, &e) || len(e.Changes) != 1 ||
		!strings.HasPrefix(e.Changes[0], "input b: "+s.url("b.tif")) {
		t.Errorf("%v, which should be about input b alone", err)
	}
	s.plain = true
	_, err = halves(t, s, out, "", 0)
	if e := new(outcome.ResumeError); !errors.As(err, &e) || !strings.Contains(strings.Join(e.Changes, "; "),
		"identifies no version") {
		t.Errorf("without versions: %v", err)
	}
}

func TestRemoteOutputResumeAndDiscard(t *testing.T) {
	v, stores := newVault(t)
	tmp := t.TempDir()
	job := outputs(t, stores, tmp, map[string]string{"remote": "vault://box/x/out.tif"})
	job.Controls.WindowWidth, job.Controls.WindowHeight, job.Concurrency.Workers = 64, 64, 1
	mustRun(t, job)
	want := string(v.objects["x/out.tif"])
	delete(v.objects, "x/out.tif")
	stop := errors.New("enough")
	interrupt := func() *outcome.IncompleteError {
		ctx, cancel := context.WithCancelCause(t.Context())
		again := job
		afterBlocks(t, 20, func() { cancel(stop) })
		_, err := apply.Run(ctx, again)
		var left *outcome.IncompleteError
		if !errors.Is(err, stop) || !errors.As(err,
			&left) || len(left.Paths) != 1 || filepath.Dir(left.Paths[0]) != tmp {
			t.Fatalf("%v: %+v", err, left)
		}
		return left
	}
	left := interrupt()
	resumed := job
	resumed.Resume = true
	if res := mustRun(t, resumed); res.Resumed != left.Done || string(v.objects["x/out.tif"]) != want {
		t.Errorf("%d blocks were resumed of %d, or the object is another", res.Resumed, left.Done)
	}
	left = interrupt()
	list, err := apply.Discard(t.Context(), job.Outputs)
	if err != nil || len(list) != 1 || list[0].Path != left.Paths[0] {
		t.Errorf("%v: %+v", err, list)
	}
	if l := names(t, tmp); len(l) > 0 {
		t.Errorf("there is still %q", l)
	}
}

func TestResumeChecksRemoteSidecars(t *testing.T) {
	aux := func(scale string) []byte {
		return []byte("<PAMDataset><PAMRasterBand band=\"1\"><Offset>0</Offset><Scale>" + scale +
			"</Scale></PAMRasterBand></PAMDataset>")
	}
	put := func(name string, b []byte) {
		t.Helper()
		past := time.Now().Add(-time.Hour)
		if err := errors.Join(os.WriteFile(name, b, 0o600), os.Chtimes(name, past, past)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(s *shop)
		want   string
	}{
		"nothing": {func(*shop) {}, ""},
		"mask": {func(s *shop) { b, _ := os.ReadFile(s.path("a.tif.msk")); put(s.path("a.tif.msk"), b) },
			".msk was changed at "},
		"mask removed": {func(s *shop) { os.Remove(s.path("a.tif.msk")) }, ".msk is gone"},
		"scale":        {func(s *shop) { put(s.path("a.tif.aux.xml"), aux("3")) }, ".aux.xml was changed at "},
		"no versions": {func(s *shop) { s.mu.Lock(); s.bare = ".msk"; s.mu.Unlock() },
			"identifies no version of it or of one of its sidecars"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			masked(t, s, testGrid)
			if err := os.WriteFile(s.path("a.tif.aux.xml"), aux("2"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, stop := filepath.Join(t.TempDir(), "o.tif"), errors.New("enough")
			run := func(at int) (*apply.Result, error) {
				job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.url("a.tif"))},
					Outputs: map[string]apply.Output{"out": {Path: out, TileSize: 64}}, Version: "1",
					Controls: apply.Controls{WindowWidth: 64, WindowHeight: 64, Unscale: true},
					Open:     newStores(t, "").Open, Concurrency: apply.Concurrency{Workers: 1}, Resume: at < 0,
					Func: func(_ context.Context, b *apply.Block) error {
						if b.Number == at {
							return stop
						}
						b.SetOut("out", b.In("a"))
						return nil
					}}
				return apply.Run(t.Context(), job)
			}
			if _, err := run(20); !errors.Is(err, stop) {
				t.Fatal(err)
			}
			c.change(s)
			res, err := run(-1)
			if c.want != "" {
				if e := new(outcome.ResumeError); !errors.As(err, &e) || len(e.Changes) == 0 ||
					!strings.HasPrefix(e.Changes[0], "input a: ") || !strings.Contains(e.Changes[0], s.url("a.tif")) ||
					!strings.Contains(e.Changes[0], c.want) {
					t.Errorf("%v, which should be about input a and %q", err, c.want)
				}
			} else if err != nil || res.Resumed != 20 {
				t.Errorf("%v: %+v", err, res)
			}
		})
	}
}
