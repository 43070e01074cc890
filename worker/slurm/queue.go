package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"leat/worker"
	"leat/worker/internal/batch"
)

// task is one worker's job: a task of a job array.
type task struct {
	job   string
	index int
}

func (t task) String() string { return t.job + "_" + strconv.Itoa(t.index) }

// row is what squeue prints about a task.
type row struct{ state, reason string }

// final reports whether no process of the job runs any more. While they are being ended, the state
// is COMPLETING.
func (r row) final() bool {
	switch r.state {
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
		"REVOKED", "TIMEOUT":
		return true
	}
	return false
}

// queueFormat has the task, the state, and last the reason, which may contain any characters. The
// JSON of squeue differs between versions.
const queueFormat = "%i|%T|%r"

// queue returns the tasks of jobs, including ended ones. Jobs that Slurm has forgotten are missing.
func (f *fleet) queue(ctx context.Context, jobs ...string) (map[task]row, error) {
	a := f.k.run(ctx, f.k.times.command, f.k.o.Squeue, f.of("--jobs="+strings.Join(jobs, ","))...)
	if a.Err != nil {
		if strings.Contains(a.Stderr, "Invalid job id") {
			return nil, nil // Slurm knows none of them
		}
		return nil, a.Err
	}
	rows, otherLine, err := parseQueue(string(a.Stdout))
	if err == nil && len(rows) == 0 && otherLine != "" {
		// The output may be a wrapper's error: it must not end workers.
		return nil, fmt.Errorf("squeue printed %q, expected the jobs", batch.Tail(otherLine, 200))
	}
	return rows, err
}

// named returns the tasks of the jobs with the fleet's name.
func (f *fleet) named(ctx context.Context) (map[task]row, error) {
	a := f.k.run(ctx, f.k.times.command, f.k.o.Squeue, f.of("--name="+f.jobName(), "--user="+userID())...)
	if a.Err != nil {
		return nil, a.Err
	}
	rows, _, err := parseQueue(string(a.Stdout))
	return rows, err
}

func (f *fleet) of(which ...string) []string {
	return f.inCluster(append([]string{"--noheader", "--array", "--states=all", "--format=" + queueFormat},
		which...)...)
}

// inCluster adds the cluster that the jobs were submitted to, unless it is the default one.
func (f *fleet) inCluster(args ...string) []string {
	if f.cluster != "" {
		return append([]string{"--clusters=" + f.cluster}, args...)
	}
	return args
}

// parseQueue parses lines of queueFormat. It skips other lines, which some sites make squeue print,
// and returns the last of them.
func parseQueue(out string) (rows map[task]row, otherLine string, err error) {
	rows = map[task]row{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "CLUSTER:") {
			continue
		}
		id, rest, ok := strings.Cut(line, "|")
		if !ok {
			otherLine = line
			continue
		}
		state, reason, ok := strings.Cut(rest, "|")
		job, index, inArray := strings.Cut(id, "_")
		n, err := strconv.ParseUint(index, 10, 31)
		if !ok || !inArray || err != nil || state == "" {
			return nil, "", fmt.Errorf("squeue printed %q, expected JOB_TASK|STATE|REASON",
				batch.Tail(line, 200))
		}
		rows[task{job, int(n)}] = row{strings.Fields(state + " ?")[0], strings.TrimSpace(reason)}
	}
	return rows, otherLine, nil
}

// exitCodes returns how the tasks of a job ended: "3:0" is status 3, "0:9" signal 9.
func (f *fleet) exitCodes(ctx context.Context, job string) map[task]string {
	codes := map[task]string{}
	a := f.k.run(ctx, f.k.times.command, f.k.o.Scontrol, f.inCluster("--oneliner", "show", "job", job)...)
	if a.Err != nil {
		return codes // Slurm has forgotten them: the state must suffice
	}
	for line := range strings.Lines(string(a.Stdout)) {
		index, code := -1, ""
		for field := range strings.FieldsSeq(line) {
			k, v, _ := strings.Cut(field, "=")
			switch k {
			case "ArrayTaskId":
				if n, err := strconv.Atoi(v); err == nil {
					index = n
				}
			case "ExitCode":
				code = v
			}
		}
		codes[task{job, index}] = code
	}
	return codes
}

// ending describes how a worker's job ended; nil: successfully.
func (f *fleet) ending(r row, code string) error {
	text := r.state
	switch r.state {
	case "COMPLETED":
		return nil
	case "FAILED":
		return f.exitError(code, r.reason)
	case "TIMEOUT":
		text += ": time limit reached"
	case "OUT_OF_MEMORY":
		text += ": out of memory"
	case "NODE_FAIL", "BOOT_FAIL":
		text += ": node failed"
	case "PREEMPTED":
		text += ": preempted by a job of higher priority"
	case "DEADLINE":
		text += ": deadline reached"
	case "":
		text = "the job is no longer known to Slurm"
	default:
		if r.reason != "" && r.reason != "None" {
			text += " (" + r.reason + ")"
		}
	}
	return failed(r.state, "%s", text)
}

// cantOpen is the signal that Slurm reports if it could not open a job's output.
const cantOpen = 53

// exitError describes a job that failed.
func (f *fleet) exitError(code, reason string) error {
	s, g, _ := strings.Cut(code, ":")
	status, err1 := strconv.Atoi(s)
	signal, err2 := strconv.Atoi(g)
	switch {
	case err1 != nil || err2 != nil:
		return failed("FAILED", "FAILED: %s", reason)
	case signal == cantOpen && f.dir != "":
		return failed("Options.Dir", "FAILED: the node could not open its log in %s", f.dir)
	case signal == cantOpen:
		return failed("FAILED", "FAILED: the node could not start it")
	case signal > 0:
		return failed("FAILED", "FAILED: killed by signal %d", signal)
	case status > 128 && status <= 128+64:
		return failed("FAILED", "FAILED: exit status %d, which shells return for signal %d", status, status-128)
	}
	return failed("FAILED", "FAILED: exit status %d", status)
}

// pendingError returns why a pending job will not start by itself; nil: it may.
func pendingError(reason string) error {
	text := ""
	switch reason {
	case "None", "", "Resources", "Priority", "JobArrayTaskLimit", "BeginTime", "Cleaning", "Licenses", "Reservation",
		"Dependency", "NodeDown":
		return nil
	case "PartitionTimeLimit":
		text = "it requests more time than its partition allows"
	case "PartitionNodeLimit", "PartitionConfig":
		text = "it requests more nodes or processors than its partition has"
	case "PartitionDown", "PartitionInactive":
		text = "its partition is not starting jobs"
	case "BadConstraints":
		text = "no node satisfies its constraints"
	case "AccountNotAllowed", "InvalidAccount", "AssociationNotAllowed":
		text = "its account may not run there"
	case "QOSNotAllowed", "InvalidQOS":
		text = "its quality of service may not run there"
	case "JobHeldUser", "JobHeldAdmin":
		text = "it is held"
	case "DependencyNeverSatisfied":
		text = "its dependency can't be satisfied"
	}
	switch {
	case text != "":
	case strings.HasPrefix(reason, "QOS"), strings.HasPrefix(reason, "Assoc"), strings.HasPrefix(reason, "MaxTRES"):
		text = "a limit of its account or quality of service is reached"
	case strings.HasPrefix(reason, "ReqNodeNotAvail"):
		text = "the requested nodes are down or reserved"
	case strings.Contains(reason, "held"):
		text = "it could not be started and is held"
	default:
		return nil
	}
	return failed(reason, "%s", text)
}

// failed returns an error about the system or a job.
func failed(code, format string, a ...any) error {
	return &worker.BatchError{Kind: launcherName, Code: code, Err: fmt.Errorf(format, a...)}
}
