//go:build !nocloud

package awsbatch

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"leat/worker"
	leatbatch "leat/worker/internal/batch"
)

// unknownJob is an identifier that no job has.
const unknownJob = "00000000-0000-0000-0000-000000000000"

// Limits of AWS Batch.
const (
	maxArray = 10000
	maxPage  = 100 // jobs in one DescribeJobs
)

// times holds timeouts, which are shorter in tests.
type times struct {
	first, longest time.Duration // between queries
	answer         time.Duration // for a running submission to finish after the start is canceled
	// for a canceled start to return, and for a Stop whose ctx is done
	grace   time.Duration
	clean   time.Duration // to terminate the jobs of a failed start
	backoff time.Duration // longest pause before a call is repeated
}

func (t times) pace() leatbatch.Pace { return leatbatch.Pace{First: t.first, Longest: t.longest} }

var usual = times{first: 500 * time.Millisecond, longest: 10 * time.Second, answer: 2 * time.Second,
	grace: 4 * time.Second, clean: time.Minute, backoff: 10 * time.Second}

// launcher starts workers with AWS Batch.
type launcher struct {
	o        Options
	times    times
	maxArray int
}

// New returns a launcher; nil means defaults. Check and Start report invalid options.
func New(o *Options) worker.Launcher { return newLauncher(o) }

func newLauncher(o *Options) *launcher {
	k := &launcher{times: usual, maxArray: maxArray}
	if o != nil {
		k.o = *o
	}
	return k
}

// Check returns an error if options are invalid, the queue takes no jobs or could never run a
// worker, the job definition is not for containers, jobs can't be described, or the secret is
// missing.
func (k *launcher) Check(ctx context.Context) error {
	if err := k.o.validate(); err != nil {
		return err
	}
	c, err := k.connect(ctx)
	if err != nil {
		return err
	}
	defer c.idle()
	if _, err := k.plan(ctx, c); err != nil {
		return err
	}
	// A run that can't describe its jobs would wait long for workers that never start. AWS omits
	// unknown jobs from its answer.
	if _, err := c.describeJobs(ctx, &batch.DescribeJobsInput{Jobs: []string{unknownJob}}); err != nil {
		return failed(err, "describing jobs (batch:DescribeJobs)")
	}
	return k.checkSecret(ctx, c)
}
