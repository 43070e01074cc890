//go:build !nocloud

package awsbatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"leat/worker"
	leatbatch "leat/worker/internal/batch"
)

// submitted is one job of the fleet.
type submitted struct {
	id    string
	first int // number of its first worker, relative to the fleet's first
	ends  []bool
	left  int
}

// fleet is the jobs of one start.
type fleet struct {
	*leatbatch.Fleet
	k *launcher
	c *clients
	o worker.StartOptions

	// The fields below belong to Query, and then to Cancel.
	definition string // registered for the run; "": none
	jobs       []*submitted
	logs       int  // number of logs fetched
	terminated bool // AWS has accepted to end all jobs
}

func newFleet(k *launcher, c *clients, o worker.StartOptions) *fleet {
	f := &fleet{k: k, c: c, o: o}
	f.Fleet = leatbatch.NewFleet(f, &f.o, k.times.pace(), k.times.grace)
	return f
}

func (f *fleet) add(id string, first, n int) {
	f.jobs = append(f.jobs, &submitted{id: id, first: first, ends: make([]bool, n), left: n})
}

// Jobs names the jobs by their identifiers.
func (f *fleet) Jobs() string {
	var ids []string
	for _, s := range f.jobs {
		ids = append(ids, s.id)
	}
	if len(ids) == 1 {
		return "job " + ids[0]
	}
	return "jobs " + strings.Join(ids, " ")
}

// Query returns the workers that have ended since the last query and how many are left. It
// describes an array's children only if the array's summary counts more ended ones than are known:
// otherwise a query for 10,000 workers would take 100 calls.
func (f *fleet) Query(ctx context.Context) (ended []worker.Exit, left int, err error) {
	defer func() {
		left = 0
		for _, s := range f.jobs {
			left += s.left
		}
	}()
	type part struct {
		s      *submitted
		i      int
		parent *types.JobDetail
	}
	var ids []string
	of := map[string]part{}
	for _, s := range f.jobs {
		if s.left > 0 {
			ids = append(ids, s.id)
			of[s.id] = part{s: s}
		}
	}
	jobs, err := f.describe(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	ids = nil
	for _, j := range jobs {
		s := of[aws.ToString(j.JobId)].s
		delete(missing, aws.ToString(j.JobId))
		switch {
		case s == nil:
		case len(s.ends) == 1:
			ended = append(ended, f.collectExited(ctx, s, 0, &j)...)
		case over(j.Status) || ends(&j) > len(s.ends)-s.left:
			for i, gone := range s.ends {
				if !gone {
					id := s.id + ":" + strconv.Itoa(i)
					ids = append(ids, id)
					of[id] = part{s, i, &j}
				}
			}
		}
	}
	children, err := f.describe(ctx, ids)
	for _, j := range children {
		if p := of[aws.ToString(j.JobId)]; p.s != nil {
			ended = append(ended, f.collectExited(ctx, p.s, p.i, &j)...)
			delete(of, aws.ToString(j.JobId))
		}
	}
	if err != nil {
		return ended, 0, err
	}
	// All children of an ended array have ended: those that Batch omits never started or are too
	// old.
	for _, id := range ids {
		if p, ok := of[id]; ok && over(p.parent.Status) {
			ended = append(ended, f.collectExited(ctx, p.s, p.i,
				&types.JobDetail{JobId: &id, Status: p.parent.Status, StatusReason: p.parent.StatusReason})...)
		}
	}
	if len(missing) > 0 { // an omitted job has not ended
		return ended, 0, fmt.Errorf("DescribeJobs answered without %s",
			strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return ended, 0, nil
}

// ends returns how many children of an array have ended.
func ends(j *types.JobDetail) int {
	if j.ArrayProperties == nil {
		return 0
	}
	m := j.ArrayProperties.StatusSummary
	return int(m[string(types.JobStatusSucceeded)] + m[string(types.JobStatusFailed)])
}

func over(s types.JobStatus) bool {
	return s == types.JobStatusSucceeded || s == types.JobStatusFailed
}

// describe describes jobs page by page. With an error it returns the jobs of earlier pages.
func (f *fleet) describe(ctx context.Context, ids []string) ([]types.JobDetail, error) {
	var jobs []types.JobDetail
	for len(ids) > 0 {
		n := min(len(ids), maxPage)
		out, err := f.c.describeJobs(ctx, &batch.DescribeJobsInput{Jobs: ids[:n]})
		if err != nil {
			return jobs, failed(err, "describing jobs")
		}
		jobs, ids = append(jobs, out.Jobs...), ids[n:]
	}
	return jobs, nil
}

// collectExited returns the exit of a worker if its job has ended since the last query.
func (f *fleet) collectExited(ctx context.Context, s *submitted, i int, j *types.JobDetail) []worker.Exit {
	if s.ends[i] || !over(j.Status) {
		return nil
	}
	s.ends[i] = true
	s.left--
	e := worker.Exit{Name: worker.WorkerName(launcherName, f.o.First+s.first+i), Job: "job " + aws.ToString(j.JobId)}
	if j.Status == types.JobStatusFailed {
		e.Err, e.Log = exitError(j), f.log(ctx, j)
	}
	return []worker.Exit{e}
}

// Cancel terminates the jobs, deregisters the run's job definition, which no submitted job needs
// any more, and queries what is left.
func (f *fleet) Cancel(ctx context.Context) (leatbatch.Left, error) {
	var terminated error
	if !f.terminated {
		terminated = f.terminate(ctx)
		f.terminated = terminated == nil
	}
	definition := f.deregister(ctx)
	_, left, _ := f.Query(ctx) // jobs that can't be queried are left
	switch {
	case left == 0:
		return leatbatch.Nothing, definition
	case f.terminated:
		return leatbatch.Ending, definition
	}
	return leatbatch.Running, errors.Join(terminated, definition)
}

// Commands returns the commands that terminate what is left.
func (f *fleet) Commands() []string {
	var commands []string
	for _, id := range f.left() {
		commands = append(commands, f.terminateCommand(id))
	}
	return commands
}

func (f *fleet) terminateCommand(id string) string {
	return f.shellCommand("terminate-job", "--reason", "ended", "--job-id", id)
}

// shellCommand returns a command of Amazon's client for this fleet's region.
func (f *fleet) shellCommand(operation string, args ...string) string {
	return strings.Join(append([]string{"aws", "batch", operation, "--region", f.c.region}, args...), " ")
}

// Cleanup closes idle connections.
func (f *fleet) Cleanup() error {
	f.c.idle()
	return nil
}

// terminate ends the jobs that are left; the parent of an array ends its children.
func (f *fleet) terminate(ctx context.Context) error {
	var errs []error
	for _, id := range f.left() {
		_, err := f.c.terminateJob(ctx, &batch.TerminateJobInput{JobId: &id,
			Reason: aws.String("the run of leat has ended")})
		if err != nil {
			errs = append(errs, failed(err, "terminating job %s", id))
		}
	}
	return errors.Join(errs...)
}

func (f *fleet) deregister(ctx context.Context) error {
	if f.definition == "" {
		return nil
	}
	if _, err := f.c.deregisterJobDefinition(ctx,
		&batch.DeregisterJobDefinitionInput{JobDefinition: &f.definition}); err != nil {
		return &worker.LeftError{What: "job definition " + f.definition, Err: failed(err, "deregistering it"),
			Commands: []string{f.shellCommand("deregister-job-definition", "--job-definition", f.definition)}}
	}
	f.definition = ""
	return nil
}

// left returns the jobs that have not ended as of the last query.
func (f *fleet) left() []string {
	var ids []string
	for _, s := range f.jobs {
		if s.left > 0 {
			ids = append(ids, s.id)
		}
	}
	return ids
}
