package pbs

import (
	"fmt"
	"strings"

	"leat/internal/worker/protocol"
	"leat/worker"
	"leat/worker/internal/batch"
)

// secretVariable holds the endpoint's text in base64, for jobs without a directory: qsub -v
// interprets commas and quotes.
const secretVariable = "LEAT_PBS_ENDPOINT"

// script returns the script of a subjob; the array's first worker has number first.
func (f *fleet) script(first int) string {
	setup := []string{
		"unset " + strings.Join([]string{worker.EnvEndpoint, worker.EnvFile, protocol.EnvSecret, protocol.EnvKind,
			protocol.EnvIndexFrom, protocol.EnvFirst, worker.EnvSlots}, " "),
		// A plain job has no index. The name equals worker.WorkerName.
		fmt.Sprintf("export %s=%s-$((%d + ${PBS_ARRAY_INDEX:-0}))", worker.EnvName, launcherName, first),
	}
	status := []string{"leat_status=$?"}
	if f.o.Dir != "" {
		setup = append(setup, "leat_dir="+batch.Quote(f.o.Dir),
			`rm -f "$leat_dir/$LEAT_WORKER_NAME.exit"`,
			`exec >>"$leat_dir/$LEAT_WORKER_NAME.log" 2>&1 </dev/null`,
			"export "+worker.EnvFile+"="+batch.Quote(f.secret))
		// For servers without a history of jobs.
		status = append(status, `echo "$leat_status" >"$leat_dir/$LEAT_WORKER_NAME.exit"`)
	} else {
		setup = append(setup, fmt.Sprintf(`%s=$(printf %%s "$%s" | base64 -d)`, worker.EnvEndpoint, secretVariable),
			"export "+worker.EnvEndpoint, "unset "+secretVariable)
	}
	// Without cgroups a worker sees all cores of its node; NCPUS is what the job has.
	setup = append(setup, `if [ -n "${NCPUS:-}" ]; then`,
		"	export "+worker.EnvSlots+"=$NCPUS GOMAXPROCS=${GOMAXPROCS:-$NCPUS}", "fi")
	lines := f.k.o.script().Lines("/bin/sh", directivePrefix, setup, f.o.Command)
	return strings.Join(append(append(lines, status...), `exit "$leat_status"`), "\n") + "\n"
}

// directivePrefix marks the lines of a script that qsub reads options from.
const directivePrefix = "#PBS"
