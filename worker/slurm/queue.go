package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"leat/worker/internal/batchsys"
)

// task is one worker's job: a task of a job array.
type task struct {
	job   string
	index int
}

func (t task) String() string { return t.job + "_" + strconv.Itoa(t.index) }

// row is what squeue tells of a task.
type row struct{ state, reason string }

// final tells whether nothing of the job runs any more. While its processes are being ended the state is COMPLETING.
func (r row) final() bool {
	switch r.state {
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT":
		return true
	}
	return false
}

// queueFormat has the task, the state and the reason, which may have any characters, last. The JSON of squeue is another in each version.
const queueFormat = "%i|%T|%r"

// queue asks for the tasks of jobs, ended ones too. Jobs that Slurm has forgotten are left out.
func (f *fleet) queue(ctx context.Context, jobs ...string) (map[task]row, error) {
	a := f.k.run(ctx, f.k.times.command, f.k.o.Squeue, f.of("--jobs="+strings.Join(jobs, ","))...)
	if a.Err != nil {
		if strings.Contains(a.Stderr, "Invalid job id") {
			return nil, nil // none of them is known
		}
		return nil, a.Err
	}
	rows, foreign, err := parseQueue(string(a.Stdout))
	if err == nil && len(rows) == 0 && foreign != "" {
		// Workers must not be given up for what may be an error that a wrapper prints.
		return nil, fmt.Errorf("squeue answered %q, and nothing of the jobs", batchsys.Tail(foreign, 200))
	}
	return rows, err
}

// named asks for the jobs of the fleet's name.
func (f *fleet) named(ctx context.Context) (map[task]row, error) {
	a := f.k.run(ctx, f.k.times.command, f.k.o.Squeue, f.of("--name="+f.jobName(), "--user="+userID())...)
	if a.Err != nil {
		return nil, a.Err
	}
	rows, _, err := parseQueue(string(a.Stdout))
	return rows, err
}

func (f *fleet) of(which ...string) []string {
	return f.inCluster(append([]string{"--noheader", "--array", "--states=all", "--format=" + queueFormat}, which...)...)
}

// inCluster adds the cluster that the jobs went to, if it is not the usual one.
func (f *fleet) inCluster(args ...string) []string {
	if f.cluster != "" {
		return append([]string{"--clusters=" + f.cluster}, args...)
	}
	return args
}

// parseQueue reads lines of queueFormat. Sites make squeue print more lines, of which it returns the last.
func parseQueue(out string) (rows map[task]row, foreign string, err error) {
	rows = map[task]row{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "CLUSTER:") {
			continue
		}
		id, rest, ok := strings.Cut(line, "|")
		if !ok {
			foreign = line
			continue
		}
		state, reason, ok := strings.Cut(rest, "|")
		job, index, inArray := strings.Cut(id, "_")
		n, err := strconv.ParseUint(index, 10, 31)
		if !ok || !inArray || err != nil || state == "" {
			return nil, "", fmt.Errorf("squeue answered %q, which is not JOB_TASK|STATE|REASON", batchsys.Tail(line, 200))
		}
		rows[task{job, int(n)}] = row{strings.Fields(state + " ?")[0], strings.TrimSpace(reason)}
	}
	return rows, foreign, nil
}

// exitCodes asks how the tasks of a job have ended: "3:0" is status 3, "0:9" signal 9.
func (f *fleet) exitCodes(ctx context.Context, job string) map[task]string {
	codes := map[task]string{}
	a := f.k.run(ctx, f.k.times.command, f.k.o.Scontrol, f.inCluster("--oneliner", "show", "job", job)...)
	if a.Err != nil {
		return codes // Slurm has forgotten them: the state must do
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

// ending tells in words how a worker's job has ended; nil: well.
func (f *fleet) ending(r row, code string) error {
	switch r.state {
	case "COMPLETED":
		return nil
	case "FAILED":
		return fmt.Errorf("FAILED: %s", f.inWords(code, r.reason))
	case "TIMEOUT":
		return fmt.Errorf("TIMEOUT: its time limit was reached; sbatch's option --time asks for more")
	case "OUT_OF_MEMORY":
		return fmt.Errorf("OUT_OF_MEMORY: it used more memory than its job had; sbatch's options --mem and --mem-per-cpu ask for more")
	case "NODE_FAIL", "BOOT_FAIL":
		return fmt.Errorf("%s: its node failed", r.state)
	case "PREEMPTED":
		return fmt.Errorf("PREEMPTED: a job of higher priority took its place")
	case "DEADLINE":
		return fmt.Errorf("DEADLINE: its deadline was reached")
	case "":
		return fmt.Errorf("the job is no longer known to Slurm")
	}
	if r.reason != "" && r.reason != "None" {
		return fmt.Errorf("%s (%s)", r.state, r.reason)
	}
	return fmt.Errorf("%s", r.state)
}

// cantOpen is what Slurm has for a signal when a job's output could not be opened.
const cantOpen = 53

func (f *fleet) inWords(code, reason string) string {
	s, g, _ := strings.Cut(code, ":")
	status, err1 := strconv.Atoi(s)
	signal, err2 := strconv.Atoi(g)
	switch {
	case err1 != nil || err2 != nil:
		return reason
	case signal == cantOpen && f.folder != "":
		return fmt.Sprintf("its node could not open its log in %s: the nodes must have that folder, too", f.folder)
	case signal == cantOpen:
		return "its node could not start it"
	case signal > 0:
		return fmt.Sprintf("killed by signal %d", signal)
	case status > 128 && status <= 128+64:
		return fmt.Sprintf("exit status %d, which shells have for signal %d", status, status-128)
	}
	return fmt.Sprintf("exit status %d", status)
}

// waiting tells why a pending job does not start. never: it will not, unless somebody does something.
func waiting(reason string) (why string, never bool) {
	switch reason {
	case "None", "", "Resources", "Priority", "JobArrayTaskLimit", "BeginTime", "Cleaning", "Licenses", "Reservation", "Dependency", "NodeDown":
		return "", false
	case "PartitionTimeLimit":
		return "it asks for more time than its partition allows: sbatch's options --time, --partition", true
	case "PartitionNodeLimit", "PartitionConfig":
		return "it asks for more nodes or processors than its partition has: sbatch's options --partition, --nodes, --cpus-per-task", true
	case "PartitionDown", "PartitionInactive":
		return "its partition does not start jobs now: sbatch's option --partition", true
	case "BadConstraints":
		return "no node is what it asks for: sbatch's options --constraint, --mem, --gres", true
	case "AccountNotAllowed", "InvalidAccount", "AssociationNotAllowed":
		return "its account may not run there: sbatch's options --account, --partition", true
	case "QOSNotAllowed", "InvalidQOS":
		return "its quality of service may not run there: sbatch's options --qos, --partition", true
	case "JobHeldUser", "JobHeldAdmin":
		return "it is held: `scontrol release` lets it go", true
	case "DependencyNeverSatisfied":
		return "what it waits for did not end as it should: sbatch's option --dependency", true
	}
	switch {
	case strings.HasPrefix(reason, "QOS"), strings.HasPrefix(reason, "Assoc"), strings.HasPrefix(reason, "MaxTRES"):
		return "a limit of its account or quality of service keeps it back", true
	case strings.HasPrefix(reason, "ReqNodeNotAvail"):
		return "the nodes it asks for are down or reserved", true
	case strings.Contains(reason, "held"):
		return "it could not be started and is held: `scontrol release` lets it try again", true
	}
	return "", false
}
