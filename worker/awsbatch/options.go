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
// Limits: workers must be able to reach the address at which the run listens, which depends on
// security groups and networks. AWS takes half a minute or more to end a container: if ctx is done
// earlier, Stop succeeds if AWS has accepted to end all of them. One job per block is not
// supported: starting a container takes longer than computing most blocks.
//
// With the build tag nocloud the package has no clients of AWS: Check and Start return an error.
package awsbatch

import (
	"errors"
	"fmt"
	"strings"

	"leat/worker"
)

// launcherName is the launcher's name.
const launcherName = "awsbatch"

// Stores of secrets, as in Options.Secret.
const (
	secretsManager = "secretsmanager"
	parameterStore = "ssm"
)

// Options configures a launcher. Queue, Secret, and either Definition or Image are required.
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

// versionMark separates a secret's name from the run's version of it in the workers' variable. No
// name or ARN contains it.
const versionMark = "#"

func parseSecret(s string) (store, name string, err error) {
	store, name, ok := strings.Cut(s, ":")
	switch {
	case s == "":
		return "", "", batchError("Options.Secret", "option Secret is empty, expected secretsmanager:NAME or ssm:NAME")
	case !ok || name == "" || store != secretsManager && store != parameterStore || strings.ContainsAny(name,
		versionMark+" \n"):
		return "", "", batchError("Options.Secret", "option Secret is %q, expected secretsmanager:NAME or ssm:NAME", s)
	}
	return store, name, nil
}

// Name returns "awsbatch".
func (k *launcher) Name() string { return launcherName }

// Capabilities reports that workers are remote, share no directory with the run, and are not
// started for one block each.
func (k *launcher) Capabilities() worker.Capabilities { return worker.Capabilities{NoSharedFS: true} }

// batchError returns an error about an option of the launcher, or with a code of AWS.
func batchError(code, format string, a ...any) error {
	return &worker.BatchError{Kind: launcherName, Code: code, Err: fmt.Errorf(format, a...)}
}
