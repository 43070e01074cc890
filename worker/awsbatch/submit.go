//go:build !nocloud

package awsbatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"leat/internal/worker/protocol"
	"leat/worker"
	leatbatch "leat/worker/internal/batch"
)

// indexVariable holds the number of an array's child; plain jobs have none.
const indexVariable = "AWS_BATCH_JOB_ARRAY_INDEX"

// Start writes the endpoint into the secret and submits the workers. On an error it terminates what
// was submitted. When ctx is done, it returns within 4 s and gives a running submission 2 s to
// finish; the error names what could not be terminated in that time.
func (k *launcher) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	if err := errors.Join(k.o.validate(), leatbatch.ValidateStart(&o)); err != nil {
		return nil, err
	}
	text, err := o.Endpoint.MarshalText()
	if err != nil {
		return nil, fmt.Errorf("encoding endpoint: %w", err)
	}
	c, err := k.connect(ctx)
	if err != nil {
		return nil, err
	}
	f := newFleet(k, c, o)
	extended, done := leatbatch.Extend(ctx, k.times.grace)
	defer done()
	if err := f.submitAll(ctx, extended, string(text)); err != nil {
		if why := context.Cause(ctx); why != nil && !errors.Is(err, why) {
			// The SDK does not report the cause of a canceled context.
			err = fmt.Errorf("not all workers submitted: %w (%w)", why, err)
		}
		// Terminate what was submitted even if ctx is done.
		end, stop := context.WithTimeout(extended, k.times.clean)
		defer stop()
		return nil, errors.Join(err, f.Stop(end))
	}
	f.Watch()
	return f, nil
}

// submitAll submits the workers. Until extended ends, which is later than ctx, it searches for a
// job whose submission got no response.
func (f *fleet) submitAll(ctx, extended context.Context, endpoint string) error {
	p, err := f.k.plan(ctx, f.c)
	if err != nil {
		return err
	}
	if n := int(float64(p.total) / max(p.vcpus, 0.01)); p.total >= 0 && p.vcpus > 0 && n < f.o.Workers {
		f.o.Logger.Warn("fewer workers at once", "queue", f.k.o.Queue,
			"workers", f.o.Workers, "at once", n, "vCPUs", p.vcpus, "max vCPUs", p.total)
	}
	secret, err := f.k.putSecret(ctx, f.c, endpoint)
	if err != nil {
		return err
	}
	definition := f.k.o.Definition
	if f.k.o.Image != "" {
		if definition, err = f.register(ctx, p); err != nil {
			return err
		}
	}
	for n := 0; n < f.o.Workers; {
		take := min(f.o.Workers-n, f.k.maxArray)
		if err := f.submit(ctx, extended, p, definition, secret, n, take); err != nil {
			return err
		}
		n += take
		if ctx.Err() != nil {
			return fmt.Errorf("not all workers submitted: %w", context.Cause(ctx))
		}
	}
	return nil
}

// register registers a job definition for the run, which Stop deregisters.
func (f *fleet) register(ctx context.Context, p *plan) (string, error) {
	o := &f.k.o
	memory := o.MemoryMiB
	if memory == 0 {
		memory = 2048
	}
	c := &types.ContainerProperties{Image: &o.Image, ResourceRequirements: resources(p.vcpus, memory)}
	if o.JobRole != "" {
		c.JobRoleArn = &o.JobRole
	}
	if o.ExecutionRole != "" {
		c.ExecutionRoleArn = &o.ExecutionRole
	}
	platform := types.PlatformCapabilityEc2
	if p.fargate {
		platform = types.PlatformCapabilityFargate
		public := types.AssignPublicIpDisabled
		if o.PublicIP {
			public = types.AssignPublicIpEnabled
		}
		c.NetworkConfiguration = &types.NetworkConfiguration{AssignPublicIp: public}
	}
	// Each job has its own command, but Batch refuses a definition for Fargate without one.
	c.Command = f.command()
	// Without the answer it can't be deregistered.
	ctx, stop := leatbatch.Extend(ctx, f.k.times.answer)
	defer stop()
	out, err := f.c.registerJobDefinition(ctx, &batch.RegisterJobDefinitionInput{
		JobDefinitionName: aws.String(f.jobName()), Type: types.JobDefinitionTypeContainer, ContainerProperties: c,
		PlatformCapabilities: []types.PlatformCapability{platform},
	})
	if err != nil {
		return "", failed(err, "registering job definition for image %s", o.Image)
	}
	f.definition = aws.ToString(out.JobDefinitionArn)
	return f.definition, nil
}

func resources(vcpus float64, memory int) []types.ResourceRequirement {
	var r []types.ResourceRequirement
	if vcpus > 0 {
		r = append(r, types.ResourceRequirement{Type: types.ResourceTypeVcpu,
			Value: aws.String(strconv.FormatFloat(vcpus, 'f', -1, 64))})
	}
	if memory > 0 {
		r = append(r, types.ResourceRequirement{Type: types.ResourceTypeMemory,
			Value: aws.String(strconv.Itoa(memory))})
	}
	return r
}

// command returns the worker's command, with the program's path in the image.
func (f *fleet) command() []string {
	c := append([]string(nil), f.o.Command...)
	if f.k.o.Program != "" {
		c[0] = f.k.o.Program
	}
	return c
}

func (f *fleet) jobName() string { return "leat-" + f.o.RunID }

// submit submits n workers, of which the first has number first in the fleet.
func (f *fleet) submit(ctx, extended context.Context, p *plan, definition, secret string, first, n int) error {
	o := &f.k.o
	number := f.o.First + first
	// The unique name finds the job if the response to its submission is lost.
	name := f.jobName() + "-" + strconv.Itoa(number) + "-" + strings.ToLower(rand.Text()[:8])
	in := &batch.SubmitJobInput{
		JobName: &name, JobQueue: &o.Queue, JobDefinition: &definition,
		ContainerOverrides: &types.ContainerOverrides{Command: f.command(),
			Environment: f.environment(p, secret, number, n)},
		// Batch must not restart a lost worker: its blocks go to others.
		RetryStrategy: &types.RetryStrategy{Attempts: aws.Int32(1)},
	}
	if o.Definition != "" {
		in.ContainerOverrides.ResourceRequirements = resources(o.VCPUs, o.MemoryMiB)
	}
	if n > 1 {
		in.ArrayProperties = &types.ArrayProperties{Size: aws.Int32(int32(n))}
	}
	answer, stop := leatbatch.Extend(ctx, f.k.times.answer)
	defer stop()
	out, err := f.c.submitJob(answer, in, func(b *batch.Options) { b.Retryer = f.c.submitting })
	if err == nil {
		f.add(aws.ToString(out.JobId), first, n)
		return nil
	}
	return errors.Join(failed(err, "submitting a job of %d workers to queue %s", n, o.Queue),
		f.findLost(extended, err, name, first, n))
}

var errNotFound = errors.New("AWS Batch does not list it yet")

// findLost searches for a job whose submission failed without a response of the service: it may
// exist.
func (f *fleet) findLost(ctx context.Context, why error, name string, first, n int) error {
	if hasCode(why, "ClientException", "AccessDeniedException", "UnrecognizedClientException",
		"InvalidSignatureException", "TooManyRequestsException") {
		return nil
	}
	left := &worker.LeftError{What: "job " + name, Err: errNotFound, Commands: []string{
		f.shellCommand("list-jobs", "--job-queue", f.k.o.Queue, "--filters", "name=JOB_NAME,values="+name),
		f.terminateCommand("ID")}}
	ctx, stop := context.WithTimeout(ctx, f.k.times.grace)
	defer stop()
	out, err := f.c.listJobs(ctx, &batch.ListJobsInput{JobQueue: &f.k.o.Queue,
		Filters: []types.KeyValuesPair{{Name: aws.String("JOB_NAME"), Values: []string{name}}}})
	if err != nil {
		left.Err = failed(err, "listing jobs")
		return left
	}
	for _, j := range out.JobSummaryList {
		f.add(aws.ToString(j.JobId), first, n)
	}
	if len(out.JobSummaryList) == 0 {
		return left
	}
	return nil
}

// environment returns the variables of the containers of one job.
func (f *fleet) environment(p *plan, secret string, number, n int) []types.KeyValuePair {
	var env []types.KeyValuePair
	set := func(name, value string) {
		env = append(env, types.KeyValuePair{Name: aws.String(name), Value: aws.String(value)})
	}
	set("AWS_REGION", f.c.region) // not all platforms of ECS set it
	if f.k.o.Endpoint != "" {
		set("AWS_ENDPOINT_URL", f.k.o.Endpoint)
	}
	set(protocol.EnvSecret, secret)
	if n > 1 {
		set(protocol.EnvKind, launcherName)
		set(protocol.EnvIndexFrom, indexVariable)
		set(protocol.EnvFirst, strconv.Itoa(number))
	} else {
		set(worker.EnvName, worker.WorkerName(launcherName, number))
	}
	if p.vcpus > 0 {
		// A container may see all cores of its machine.
		slots := strconv.Itoa(max(1, int(p.vcpus)))
		set(worker.EnvSlots, slots)
		set("GOMAXPROCS", slots)
	}
	for _, e := range f.k.o.Env {
		name, value, _ := strings.Cut(e, "=")
		set(name, value)
	}
	return env
}
