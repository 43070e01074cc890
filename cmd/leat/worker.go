package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"leat/apply"
	"leat/internal/worker/client"
	"leat/internal/zonaljob"
	"leat/raster"
	"leat/worker/awsbatch"
)

func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "worker",
		DisableFlagsInUseLine: true,
		Short:                 "Compute blocks for a run in another process or on another machine",
		Long: `Worker joins a run of leat apply and computes blocks for it until there are none left. Runs start their workers
themselves (leat apply --on KIND); by hand it serves to lend a run one more machine.

What leads it to the run is a secret and is passed in the environment:
  LEAT_WORKER_FILE    a file of mode 0600 that holds the run's endpoint
  LEAT_WORKER         the endpoint itself
  LEAT_WORKER_SECRET  the name of a secret that holds it: secretsmanager:NAME or ssm:NAME
  LEAT_WORKER_NAME    the name of this worker, which no other worker of the run has; it must be set
  LEAT_WORKER_SLOTS   blocks to work on at once (default: one for each core it may use)`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("leat worker takes no arguments, not %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !client.Started() {
				return usageError{errors.New("no run to work for: the environment has none of LEAT_WORKER_FILE, LEAT_WORKER and LEAT_WORKER_SECRET")}
			}
			err := apply.Work(cmd.Context(), apply.WorkOptions{Functions: zonaljob.Functions(), Opener: openSite,
				Secrets: awsbatch.Fetch(), Logger: slog.New(&peopleHandler{w: cmd.ErrOrStderr()})})
			switch signalOf(cmd.Context()) {
			case 0:
				if errors.As(err, new(*client.VariableError)) {
					return usageError{err}
				}
			case unix.SIGTERM: // the run, or a batch system, ends workers with it
				return exitStatus(exitDone)
			default:
				return nil
			}
			return err
		},
	}
}

// site describes to workers how the run reaches stores.
type site struct {
	Endpoint, Region              string
	Anonymous                     bool
	StageDir, StageBytes, MinFree string
	RetryFor                      string
}

// site returns what workers get.
func (f *storeFlags) site() []byte {
	text, err := json.Marshal(site{f.endpoint, f.region, f.anonymous, f.stageDir, f.stageBytes, f.stageFree,
		f.retryFor})
	if err != nil {
		panic(err) // of texts
	}
	return text
}

// openSite makes in a worker what the run has to reach stores.
func openSite(text []byte) (func(context.Context, string) (raster.Source, error), func() error, error) {
	var s site
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, nil, fmt.Errorf("how the run reaches stores can't be read: %w", err)
	}
	f := storeFlags{endpoint: s.Endpoint, region: s.Region, anonymous: s.Anonymous, stageDir: s.StageDir,
		stageBytes: s.StageBytes, stageFree: s.MinFree, retryFor: s.RetryFor}
	if err := f.Finalize(); err != nil {
		return nil, nil, err
	}
	stores := f.stores(nil)
	return stores.Open, stores.Close, nil
}
