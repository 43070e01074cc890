package pbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"leat/worker"
	"leat/worker/internal/batch"
)

// submitted is one job of the fleet.
type submitted struct {
	name  string // as printed by qsub
	id    id
	first int // number of its first worker, relative to the fleet's first
	ends  []bool
	left  int
	held  bool // already logged

	missed bool // missing from the last listing
}

// fleet is the jobs of one start.
type fleet struct {
	*batch.Fleet
	k *launcher
	o worker.StartOptions

	secret string // path of the secret file; "": none

	// The fields below belong to Query, and then to Cancel.
	jobs      []*submitted
	noHistory bool // the server keeps no history of jobs: qstat -x lists none
	exiting   int  // workers that have ended in jobs that have not, as of the last query
	deleted   bool // qdel was run once for all jobs
	unsure    bool // a job may exist of which only the name is known
	lost      int  // number of workers of that job
	unfound   int  // queries that found no job by its name
}

func newFleet(k *launcher, o worker.StartOptions) *fleet {
	f := &fleet{k: k, o: o}
	f.Fleet = batch.NewFleet(f, &f.o, k.times.pace(), k.times.grace)
	return f
}

func (f *fleet) add(name string, first, n int) {
	i, _ := parseID(name)
	f.jobs = append(f.jobs, &submitted{name: name, id: i, first: first, ends: make([]bool, n), left: n})
}

// Jobs returns "job 17.server" or "jobs 17[].server 18[].server".
func (f *fleet) Jobs() string {
	names := f.names()
	switch len(names) {
	case 0:
		return "jobs named " + jobName(&f.o)
	case 1:
		return "job " + names[0]
	}
	return "jobs " + strings.Join(names, " ")
}

func (f *fleet) names() []string {
	var names []string
	for _, j := range f.jobs {
		names = append(names, j.name)
	}
	return names
}

// Query queries all jobs that are left and returns the workers that have ended since the last
// query, and how many are left. A job that the server does not know has ended after the second
// query in a row.
func (f *fleet) Query(ctx context.Context) (ended []worker.Exit, left int, err error) {
	var asked []*submitted
	for _, s := range f.jobs {
		if s.left > 0 {
			asked = append(asked, s)
		}
	}
	l, r := f.ask(ctx, asked)
	f.exiting = 0
	for _, s := range asked {
		all, rr := l, r
		j, there := all.jobs[s.id]
		if !there && !isGone(&r, s) && len(asked) > 1 {
			// Some versions print only the first of several jobs in JSON.
			all, rr = f.ask(ctx, []*submitted{s})
			j, there = all.jobs[s.id]
		}
		switch {
		case there || hasSubjobs(all, s):
			s.missed = false
		case isGone(&rr, s):
			if !s.missed {
				s.missed = true
				left += s.left
				continue
			}
			j = job{State: "F"}
		default:
			// An incomplete answer must not end live workers.
			if rr.Err == nil {
				rr.Err = fmt.Errorf("qstat omitted job %s without calling it unknown", s.name)
			}
			err = errors.Join(err, rr.Err)
			left += s.left
			continue
		}
		ended = append(ended, f.collectExited(s, j, all)...)
		left += s.left
	}
	return ended, left, err
}

func hasSubjobs(l *listing, s *submitted) bool {
	for i := range s.ends {
		if _, ok := l.jobs[id{s.id.sequence, i}]; ok {
			return true
		}
	}
	return false
}

// ask runs qstat for the jobs and their subjobs.
func (f *fleet) ask(ctx context.Context, jobs []*submitted) (*listing, batch.Answer) {
	for {
		args := []string{"-t", "-f", "-F", "json"}
		if !f.noHistory {
			args = append(args, "-x")
		}
		for _, s := range jobs {
			args = append(args, s.name)
		}
		r := f.k.run(ctx, "qstat", args...)
		l := parse(r.Stdout)
		// Without history, qstat -x lists no job, prints that, and returns 0 (OpenPBS 23.06). qstat
		// follows a job that moved to another server only without -x.
		if !f.noHistory && (strings.Contains(r.Stderr, "job history") || l.moved()) {
			f.noHistory = true
			continue
		}
		if !l.whole {
			l.jobs = nil
			if r.Err == nil {
				r.Err = unreadable("qstat", r.Stdout)
			}
		}
		return l, r
	}
}

// isGone reports whether qstat printed that the server no longer has the job. With -x it prints
// that for jobs no longer in the history.
func isGone(r *batch.Answer, s *submitted) bool {
	for line := range strings.SplitSeq(r.Stderr, "\n") {
		if !strings.Contains(line, "Unknown Job Id") && !strings.Contains(line, "has finished") {
			continue
		}
		for w := range strings.FieldsSeq(line) {
			if i, ok := parseID(strings.TrimSuffix(w, ":")); ok && i == s.id {
				return true
			}
		}
	}
	return false
}

// over reports whether a job has ended: F is finished, X is a subjob that ended or was deleted.
func (j *job) over() bool { return j.State == "F" || j.State == "X" }

// collectExited returns the workers of a job that have ended since the last query.
func (f *fleet) collectExited(s *submitted, whole job, l *listing) []worker.Exit {
	var ended []worker.Exit
	if whole.State == "H" && !s.held {
		s.held = true
		f.o.Logger.Warn("job held", "job", s.name, "comment", string(whole.Comment))
	}
	for i, gone := range s.ends {
		if gone {
			continue
		}
		j, there := whole, true
		if s.id.index == array {
			j, there = l.jobs[id{s.id.sequence, i}]
		}
		if !(there && j.over()) {
			if !whole.over() {
				if there && j.State == "E" {
					f.exiting++
				}
				continue
			}
			if !there {
				j = job{State: "F"}
			}
		}
		s.ends[i] = true
		s.left--
		ended = append(ended, f.exit(s, i, j))
	}
	return ended
}

func (s *submitted) subjob(i int) string {
	if s.id.index != array {
		return s.name
	}
	return strings.Replace(s.name, "[]", "["+strconv.Itoa(i)+"]", 1)
}

func (f *fleet) exit(s *submitted, i int, j job) worker.Exit {
	name := worker.WorkerName(launcherName, f.o.First+s.first+i)
	e := worker.Exit{Name: name, Job: "job " + s.subjob(i)}
	status := string(j.Exit)
	if status == "" && f.o.Dir != "" {
		if b, err := os.ReadFile(filepath.Join(f.o.Dir, name+".exit")); err == nil {
			status = strings.TrimSpace(string(b))
		}
	}
	e.Err = exitError(status, string(j.Comment))
	if f.o.Dir != "" {
		e.Log = f.log(name, s.subjob(i))
	}
	return e
}

// exitError describes how a job ended. PBS reports signals as 256 plus the number, shells as 128
// plus it, and PBS's own errors are negative.
func exitError(status, comment string) error {
	if comment != "" {
		comment = " (PBS says: " + comment + ")"
	}
	n, err := strconv.Atoi(status)
	switch {
	case status == "" || err != nil:
		return fmt.Errorf("no exit status: the job was deleted or its node was lost%s", comment)
	case n == 0:
		return nil
	case n < 0:
		return fmt.Errorf("PBS could not run the job: exit status %d%s", n, comment)
	case n > 256:
		return fmt.Errorf("ended by signal %d", n-256)
	case n > 128 && n < 128+65:
		return fmt.Errorf("ended with status %d, which shells return for signal %d", n, n-128)
	}
	return fmt.Errorf("ended with status %d", n)
}

// log returns the end of the worker's output, followed by what PBS wrote about its job.
func (f *fleet) log(name, subjob string) string {
	var parts []string
	for _, p := range []string{name + ".log", subjob + ".OU"} {
		if s := batch.End(filepath.Join(f.o.Dir, p)); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n")
}
