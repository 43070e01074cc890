// Package awsbatch starts workers as array jobs of AWS Batch.
//
// n workers are an array job of n children in the user's queue (one worker is a plain job, more
// than 10,000 are several arrays). The job definition is an existing one, or one that is
// registered from an image for the run and deregistered at its end. The containers' command is the
// worker's command; a container finds its number in AWS_BATCH_JOB_ARRAY_INDEX.
//
// A container has no private file or variable: all users who may describe a job see its variables.
// So the endpoint is stored in a secret of AWS Secrets Manager, or in a SecureString of SSM's
// parameter store, which the user names. The run writes it as a new version, and workers get the
// name and the version and fetch it ([Fetch]). Concurrent runs may share one secret.
//
// The run needs the permissions batch:SubmitJob, TerminateJob, ListJobs, DescribeJobs,
// DescribeJobQueues, DescribeComputeEnvironments and DescribeJobDefinitions; with an image also
// batch:RegisterJobDefinition and DeregisterJobDefinition, and iam:PassRole for the roles;
// secretsmanager:PutSecretValue and DescribeSecret, or ssm:PutParameter, and kms:GenerateDataKey,
// Encrypt and Decrypt where the secret has a key of its own. The role of the jobs needs
// secretsmanager:GetSecretValue or ssm:GetParameter, and kms:Decrypt. Both need them for that one
// secret only.
//
// The output of workers goes to CloudWatch. The error of a failed worker names its stream, and
// quotes the end of it if the run has the permission logs:GetLogEvents.
//
// Limits: workers must reach the address at which the run listens, which depends on security groups
// and networks. AWS takes half a minute or more to end a container: when ctx ends earlier, Stop
// succeeds if AWS has accepted to end all of them. One job per block is not supported: starting a
// container takes longer than computing most blocks.
package awsbatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"leat/worker"
	leatbatch "leat/worker/internal/batch"
)

// Name is the launcher's name.
const Name = "awsbatch"

// unknownJob is an identifier that no job has.
const unknownJob = "00000000-0000-0000-0000-000000000000"

// Limits of AWS Batch.
const (
	maxArray = 10000
	maxPage  = 100 // jobs in one DescribeJobs
)

// Options configures a Launcher. Queue, Secret, and either Definition or Image are required.
type Options struct {
	// Queue is the name or the ARN of the job queue.
	Queue string
	// Definition is an existing job definition for containers: "NAME" (its latest revision),
	// "NAME:REVISION", or an ARN.
	Definition string
	// Image is a container image that contains this program; a job definition is registered for
	// the run.
	Image string
	// VCPUs and MemoryMiB are the resources of each worker; 0: those of Definition, or 1 and 2048
	// with Image.
	VCPUs     float64
	MemoryMiB int
	// JobRole is the ARN of the workers' role, ExecutionRole that of the role with which ECS starts
	// them; Fargate requires one. With Image only.
	JobRole, ExecutionRole string
	// PublicIP gives workers on Fargate a public address: in a subnet without NAT they need it to
	// pull the image. With Image only.
	PublicIP bool
	// Program is the path of this program in the image; "": the same as here. An ENTRYPOINT of the
	// image precedes it.
	Program string
	// Env is added to the environment of workers: NAME=VALUE each. All users who may describe the
	// jobs can read it.
	Env []string
	// Secret is "secretsmanager:NAME", an existing secret of any content, or "ssm:NAME", a
	// parameter that is created if it does not exist. NAME may be an ARN.
	Secret string
	// Region is the region of the queue and the secret; "": that of the environment or the shared
	// configuration, as for the aws command.
	Region string
	// Endpoint is the URL of a server that replaces all services, for tests. Workers get it as
	// AWS_ENDPOINT_URL.
	Endpoint string
}

func (o *Options) validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if o.Queue == "" {
		bad("Queue is empty, expected the name of a job queue")
	}
	switch {
	case o.Definition == "" && o.Image == "":
		bad("Definition and Image are empty, expected one of them")
	case o.Definition != "" && o.Image != "":
		bad("Definition is %q and Image is %q, expected one of them", o.Definition, o.Image)
	case o.Definition != "" && (o.JobRole != "" || o.ExecutionRole != "" || o.PublicIP):
		bad("JobRole, ExecutionRole or PublicIP are set, expected none with Definition %q", o.Definition)
	}
	if o.VCPUs < 0 || o.VCPUs != o.VCPUs || o.VCPUs > 1e6 {
		bad("VCPUs is %v, expected 0 (as in the definition) or more", o.VCPUs)
	}
	if o.MemoryMiB < 0 {
		bad("MemoryMiB is %d, expected 0 (as in the definition) or more", o.MemoryMiB)
	}
	if _, _, err := parseSecret(o.Secret); err != nil {
		errs = append(errs, err)
	}
	for i, e := range o.Env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "":
			bad("Env[%d] is %q, expected NAME=VALUE", i, e)
		case strings.HasPrefix(name, worker.EnvEndpoint):
			bad("Env[%d] sets %s, which is reserved for the launcher", i, name)
		case strings.HasPrefix(name, "AWS_BATCH"):
			bad("Env[%d] sets %s, which is reserved for AWS Batch", i, name)
		}
	}
	return errors.Join(errs...)
}

// times holds timeouts, which are shorter in tests.
type times struct {
	first, longest time.Duration // between queries
	answer         time.Duration // for a running submission to finish after the start is canceled
	// for a canceled start to return, and for a Stop whose ctx has ended
	grace   time.Duration
	clean   time.Duration // to terminate the jobs of a failed start
	backoff time.Duration // longest pause before a call is repeated
}

func (t times) pace() leatbatch.Pace { return leatbatch.Pace{First: t.first, Longest: t.longest} }

var usual = times{first: 500 * time.Millisecond, longest: 10 * time.Second, answer: 2 * time.Second,
	grace: 4 * time.Second, clean: time.Minute, backoff: 10 * time.Second}

// Launcher starts workers with AWS Batch.
type Launcher struct {
	o        Options
	times    times
	maxArray int
}

var _ worker.Launcher = (*Launcher)(nil)

// New returns a launcher; nil means defaults. Check and Start report invalid options.
func New(o *Options) *Launcher {
	k := &Launcher{times: usual, maxArray: maxArray}
	if o != nil {
		k.o = *o
	}
	return k
}

// Name returns "awsbatch".
func (k *Launcher) Name() string { return Name }

// Capabilities returns that workers are remote, share no directory with the run, and are not
// started for one block each.
func (k *Launcher) Capabilities() worker.Capabilities { return worker.Capabilities{NoSharedFS: true} }

// Check returns an error if options are invalid, the queue takes no jobs or could never run a
// worker, the job definition is not for containers, jobs can't be described, or the secret is
// missing.
func (k *Launcher) Check(ctx context.Context) error {
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
		return failed(err, "describe jobs (batch:DescribeJobs)")
	}
	return k.checkSecret(ctx, c)
}
