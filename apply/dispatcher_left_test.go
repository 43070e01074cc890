package apply

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"leat/worker"
	"leat/worker/subprocess"
)

var errDeaf = errors.New("the controller does not answer: end them by `scancel 7`")

// deaf is a launcher whose workers end and that never confirms it.
type deaf struct{ worker.Launcher }

func (d deaf) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	f, err := d.Launcher.Start(ctx, o)
	return deafFleet{f}, err
}

type deafFleet struct{ worker.Fleet }

func (f deafFleet) Stop(ctx context.Context) error { return errors.Join(f.Fleet.Stop(ctx), errDeaf) }

func TestWarnWorkersLeft(t *testing.T) {
	stop := errors.New("enough")
	for _, c := range []struct {
		name, function string
		params         any
		stop           bool
	}{{"all blocks are done", "emits one", nil, false}, {"stopped", "emits one", nil, true},
		{"failed", "fails", 5, false}} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var b strings.Builder
			job := remoteJob(t, c.function)
			job.Params = c.params
			job.Concurrency = Concurrency{On: deaf{subprocess.New(nil)}, Workers: 2}
			job.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				return b.Write(p)
			}), &slog.HandlerOptions{Level: slog.LevelWarn}))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.params == nil {
				job.Merge = func(int, any) error {
					if c.stop {
						cancel(stop)
					}
					return nil
				}
			}
			_, err := Run(ctx, job)
			mu.Lock()
			defer mu.Unlock()
			warned := strings.Count(b.String(), "scancel 7")
			switch c.name {
			case "failed":
				wantError(t, err, "after that: ", "scancel 7")
				if warned != 0 {
					t.Error("it is logged twice")
				}
				return
			case "stopped":
				if !errors.Is(err, stop) {
					t.Errorf("%v", err)
				}
			default: // the output is complete and needs no worker
				if err != nil {
					t.Errorf("%v", err)
				}
				fileBytes(t, job.Outputs["out"].Path)
			}
			if warned != 1 {
				t.Errorf("logged %d times: %s", warned, b.String())
			}
		})
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
