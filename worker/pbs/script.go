package pbs

import (
	"fmt"
	"path/filepath"
	"strings"

	"leat/worker"
)

// secretVariable holds the endpoint's text in base64, for jobs without a folder: qsub -v interprets
// commas and quotes.
const secretVariable = "LEAT_PBS_INVITATION"

// script returns the script of a subjob; the array's first worker has number first. It has no
// comments: with PBS_DPREFIX set, qsub would take them for directives.
func (k *Launcher) script(o *worker.StartOptions, first int) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("#!/bin/sh")
	line("unset %s", strings.Join([]string{worker.EnvEndpoint, worker.EnvFile, worker.EnvSecret, worker.EnvKind,
		worker.EnvIndexFrom, worker.EnvFirst, worker.EnvSlots}, " "))
	// A plain job has no index. The name equals worker.WorkerName.
	line("LEAT_WORKER_NAME=%s-$((%d + ${PBS_ARRAY_INDEX:-0}))", Name, first)
	line("export LEAT_WORKER_NAME")
	if o.Folder != "" {
		line("leat_folder=%s", quote(o.Folder))
		line(`rm -f "$leat_folder/$LEAT_WORKER_NAME.exit"`)
		line(`exec >>"$leat_folder/$LEAT_WORKER_NAME.log" 2>&1 </dev/null`)
		line("LEAT_WORKER_FILE=%s", quote(secretFile(o)))
		line("export LEAT_WORKER_FILE")
	} else {
		line(`LEAT_WORKER=$(printf %%s "$%s" | base64 -d)`, secretVariable)
		line("export LEAT_WORKER")
		line("unset %s", secretVariable)
	}
	// Without cgroups a worker sees all cores of its node; NCPUS is what the job has.
	line(`if [ -n "${NCPUS:-}" ]; then`)
	line(`	LEAT_WORKER_SLOTS=$NCPUS GOMAXPROCS=${GOMAXPROCS:-$NCPUS}`)
	line("	export LEAT_WORKER_SLOTS GOMAXPROCS")
	line("fi")
	for _, s := range k.o.Init {
		line("%s", s)
	}
	words := append([]string(nil), k.o.Prefix...)
	for _, w := range o.Command {
		words = append(words, quote(w))
	}
	line("%s", strings.Join(append(words, k.o.Suffix...), " "))
	line("leat_status=$?")
	if o.Folder != "" {
		// For servers without a history of jobs.
		line(`echo "$leat_status" >"$leat_folder/$LEAT_WORKER_NAME.exit"`)
	}
	line(`exit "$leat_status"`)
	return b.String()
}

// secretFile returns the path of a start's own secret file: it is removed with that start's
// workers, and others may start meanwhile.
func secretFile(o *worker.StartOptions) string {
	return filepath.Join(o.Folder, worker.WorkerName(Name, o.First)+".invitation")
}

// quote quotes a word for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
