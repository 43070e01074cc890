package pbs

import (
	"context"
	"os"
	"strings"

	"leat/worker"
	"leat/worker/internal/batch"
)

// run runs a program of PBS.
func (k *launcher) run(ctx context.Context, program string, args ...string) batch.Answer {
	return batch.Program{Path: k.o.program(program), Args: args, Env: environment()}.Run(ctx, k.times.command)
}

// environment returns this process's environment without the variables of workers, all of which
// begin with LEAT_WORKER: qsub -V would copy them into the job.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if n, _, _ := strings.Cut(e, "="); !strings.HasPrefix(n, worker.EnvEndpoint) && n != secretVariable {
			env = append(env, e)
		}
	}
	return env
}
