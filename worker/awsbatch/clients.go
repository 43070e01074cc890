//go:build !nocloud

package awsbatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
)

// attempts is the number of attempts of one call. Batch allows an account few calls per second and
// refuses more with TooManyRequestsException.
const attempts = 8

// clients holds the calls of the services as functions. If fleet, which is converted to an
// interface, referred to the SDK's clients, the linker would keep all their methods (12 MB).
type clients struct {
	region string
	idle   func() // closes connections that are not in use
	// submitting repeats a call only if it certainly had no effect: SubmitJob has no token that
	// identifies a repeated call.
	submitting aws.Retryer

	describeJobQueues           call[batch.DescribeJobQueuesInput, batch.DescribeJobQueuesOutput, batch.Options]
	describeComputeEnvironments call[batch.DescribeComputeEnvironmentsInput, batch.DescribeComputeEnvironmentsOutput,
		batch.Options]
	describeJobDefinitions call[batch.DescribeJobDefinitionsInput, batch.DescribeJobDefinitionsOutput,
		batch.Options]
	registerJobDefinition   call[batch.RegisterJobDefinitionInput, batch.RegisterJobDefinitionOutput, batch.Options]
	deregisterJobDefinition call[batch.DeregisterJobDefinitionInput, batch.DeregisterJobDefinitionOutput,
		batch.Options]
	submitJob      call[batch.SubmitJobInput, batch.SubmitJobOutput, batch.Options]
	describeJobs   call[batch.DescribeJobsInput, batch.DescribeJobsOutput, batch.Options]
	listJobs       call[batch.ListJobsInput, batch.ListJobsOutput, batch.Options]
	terminateJob   call[batch.TerminateJobInput, batch.TerminateJobOutput, batch.Options]
	describeSecret call[secretsmanager.DescribeSecretInput, secretsmanager.DescribeSecretOutput,
		secretsmanager.Options]
	putSecretValue call[secretsmanager.PutSecretValueInput, secretsmanager.PutSecretValueOutput,
		secretsmanager.Options]
	getSecretValue call[secretsmanager.GetSecretValueInput, secretsmanager.GetSecretValueOutput,
		secretsmanager.Options]
	putParameter call[ssm.PutParameterInput, ssm.PutParameterOutput, ssm.Options]
	getParameter call[ssm.GetParameterInput, ssm.GetParameterOutput, ssm.Options]
	getLogEvents call[cloudwatchlogs.GetLogEventsInput, cloudwatchlogs.GetLogEventsOutput,
		cloudwatchlogs.Options]
}

type call[In, Out, Options any] func(context.Context, *In, ...func(*Options)) (*Out, error)

// connect creates the clients, with credentials found as by the aws command.
func connect(ctx context.Context, region, endpoint string, backoff time.Duration) (*clients, error) {
	// The SDK's log only repeats its errors.
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if region != "" {
		load = append(load, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("loading AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, batchError("Options.Region", "no region: neither Region nor AWS_REGION nor ~/.aws/config sets one")
	}
	c := &clients{region: cfg.Region, idle: func() {}}
	if h, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		t := h.GetTransport()
		cfg.HTTPClient = &http.Client{Transport: t, Timeout: h.GetTimeout()}
		c.idle = t.CloseIdleConnections
	}
	if endpoint != "" {
		cfg.BaseEndpoint = aws.String(endpoint)
	}
	// Servers other than Amazon's may not support the newer checksums.
	cfg.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	cfg.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	retryer := func(more ...func(*retry.StandardOptions)) aws.Retryer {
		return retry.NewStandard(append([]func(*retry.StandardOptions){func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = attempts, backoff
			o.RateLimiter = ratelimit.None // it counts failures of all calls and then fails by itself
		}}, more...)...)
	}
	cfg.Retryer = func() aws.Retryer { return retryer() }
	c.submitting = retryer(func(o *retry.StandardOptions) {
		o.Retryables = []retry.IsErrorRetryable{retry.RetryableErrorCode{Codes: retry.DefaultThrottleErrorCodes}}
	})
	b, s, p, l := batch.NewFromConfig(cfg), secretsmanager.NewFromConfig(cfg), ssm.NewFromConfig(cfg),
		cloudwatchlogs.NewFromConfig(cfg)
	c.describeJobQueues = b.DescribeJobQueues
	c.describeComputeEnvironments = b.DescribeComputeEnvironments
	c.describeJobDefinitions = b.DescribeJobDefinitions
	c.registerJobDefinition = b.RegisterJobDefinition
	c.deregisterJobDefinition = b.DeregisterJobDefinition
	c.submitJob = b.SubmitJob
	c.describeJobs = b.DescribeJobs
	c.listJobs = b.ListJobs
	c.terminateJob = b.TerminateJob
	c.describeSecret = s.DescribeSecret
	c.putSecretValue = s.PutSecretValue
	c.getSecretValue = s.GetSecretValue
	c.putParameter = p.PutParameter
	c.getParameter = p.GetParameter
	c.getLogEvents = l.GetLogEvents
	return c, nil
}

func (k *launcher) connect(ctx context.Context) (*clients, error) {
	return connect(ctx, k.o.Region, k.o.Endpoint, k.times.backoff)
}

// callError is an error of a service: the operation, the service's message and its code.
type callError struct {
	op  string
	err error
}

func (e *callError) Error() string {
	var api smithy.APIError
	if errors.As(e.err, &api) {
		if m := api.ErrorMessage(); m != "" {
			return e.op + ": " + m + " (" + api.ErrorCode() + ")"
		}
		return e.op + ": " + api.ErrorCode()
	}
	return e.op + ": " + e.err.Error()
}

func (e *callError) Unwrap() error { return e.err }

func failed(err error, op string, a ...any) error {
	return &callError{op: fmt.Sprintf(op, a...), err: err}
}

// hasCode reports whether a service answered with one of the codes.
func hasCode(err error, codes ...string) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	for _, c := range codes {
		if api.ErrorCode() == c {
			return true
		}
	}
	return false
}
