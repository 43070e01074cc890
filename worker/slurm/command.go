package slurm

import (
	"context"
	"os"
	"strings"
	"time"

	"leat/worker/internal/batch"
)

// run runs a program of Slurm.
func (k *launcher) run(ctx context.Context, limit time.Duration, program string, args ...string) batch.Answer {
	return batch.Program{Path: program, Args: args, Env: environment()}.Run(ctx, limit)
}

// environment returns the environment for Slurm's programs and for jobs: that of this process
// without
//   - LEAT_WORKER..., which configure a worker process;
//   - SBATCH_WAIT, with which sbatch would not return before the workers end;
//   - SQUEUE_... and SCANCEL_..., which filter jobs or make scancel ask for confirmation;
//   - the description of the job that this process runs in, if any: a worker would take that job's
//     number of CPUs for its own.
func environment() []string {
	inJob := os.Getenv("SLURM_JOB_ID") != ""
	var env []string
	for _, e := range os.Environ() {
		n, _, _ := strings.Cut(e, "=")
		switch n {
		case "SBATCH_WAIT":
			continue
		case "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT":
		default:
			if strings.HasPrefix(n, "LEAT_WORKER") || strings.HasPrefix(n, "SQUEUE_") || strings.HasPrefix(n,
				"SCANCEL_") ||
				inJob && (strings.HasPrefix(n, "SLURM_") || strings.HasPrefix(n, "SLURMD_")) {
				continue
			}
		}
		env = append(env, e)
	}
	return env
}
