package pbs

import (
	"context"
	"os"
	"strings"

	"leat/worker"
	"leat/worker/internal/batchsys"
)

// run runs a program of PBS.
func (k *Kind) run(ctx context.Context, program string, args ...string) batchsys.Answer {
	return batchsys.Program{Path: k.o.program(program), Args: args, Env: environment()}.Run(ctx, k.times.command)
}

// environment is that of this process without the variables of a worker, which all begin with LEAT_WORKER: qsub -V would take them into the job.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if n, _, _ := strings.Cut(e, "="); !strings.HasPrefix(n, worker.EnvInvitation) && n != secretVariable {
			env = append(env, e)
		}
	}
	return env
}
