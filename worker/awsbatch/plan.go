//go:build !nocloud

package awsbatch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
)

// plan describes the queue and the job definition before anything is submitted.
type plan struct {
	vcpus   float64 // of a worker; 0: unknown
	fargate bool
	total   int // vCPUs of all compute environments together; -1: unknown
	largest int // of one
}

func (k *launcher) plan(ctx context.Context, c *clients) (*plan, error) {
	p := &plan{vcpus: k.o.VCPUs}
	if err := k.planQueue(ctx, c, p); err != nil {
		return nil, err
	}
	if k.o.Image != "" {
		if p.vcpus == 0 {
			p.vcpus = 1
		}
		if p.fargate && k.o.ExecutionRole == "" {
			return nil, batchError("Options.ExecutionRole", "ExecutionRole is empty, expected one that may pull the image and write logs: queue %s runs jobs on Fargate", k.o.Queue)
		}
	} else if err := k.planDefinition(ctx, c, p); err != nil {
		return nil, err
	}
	if p.total >= 0 && p.vcpus > float64(p.largest) {
		return nil, batchError("Options.VCPUs", "a worker takes %v vCPUs and would never start: the compute environments of queue %s have %d at most",
			p.vcpus, k.o.Queue, p.largest)
	}
	return p, nil
}

func (k *launcher) planQueue(ctx context.Context, c *clients, p *plan) error {
	out, err := c.describeJobQueues(ctx, &batch.DescribeJobQueuesInput{JobQueues: []string{k.o.Queue}})
	if err != nil {
		return failed(err, "describing queue %s", k.o.Queue)
	}
	if len(out.JobQueues) == 0 {
		return batchError("Options.Queue", "there is no job queue %s in region %s", k.o.Queue, c.region)
	}
	q := out.JobQueues[0]
	if q.State == types.JQStateDisabled {
		return batchError("DISABLED", "queue %s is disabled and takes no jobs", k.o.Queue)
	}
	if q.Status != types.JQStatusValid && q.Status != types.JQStatusUpdating {
		return batchError(string(q.Status), "queue %s takes no jobs: it is %s, %s", k.o.Queue, q.Status,
			aws.ToString(q.StatusReason))
	}
	var names []string
	for _, e := range q.ComputeEnvironmentOrder {
		names = append(names, aws.ToString(e.ComputeEnvironment))
	}
	if len(names) == 0 {
		return batchError("Options.Queue", "queue %s has no compute environment for containers", k.o.Queue)
	}
	envs, err := c.describeComputeEnvironments(ctx, &batch.DescribeComputeEnvironmentsInput{ComputeEnvironments: names})
	if err != nil {
		return failed(err, "describing compute environments of queue %s", k.o.Queue)
	}
	usable, unknown := 0, false
	var why []string
	for _, e := range envs.ComputeEnvironments {
		if e.State == types.CEStateDisabled || e.Status == types.CEStatusInvalid ||
			e.Status == types.CEStatusDeleting || e.Status == types.CEStatusDeleted {
			why = append(why, fmt.Sprintf("%s is %s and %s %s", aws.ToString(e.ComputeEnvironmentName), e.State,
				e.Status, aws.ToString(e.StatusReason)))
			continue
		}
		usable++
		r := e.ComputeResources
		if r == nil || r.MaxvCpus == nil { // unmanaged
			unknown = true
			continue
		}
		p.total += int(*r.MaxvCpus)
		p.largest = max(p.largest, int(*r.MaxvCpus))
		p.fargate = p.fargate || r.Type == types.CRTypeFargate || r.Type == types.CRTypeFargateSpot
	}
	if unknown {
		p.total = -1
	}
	if usable == 0 {
		return batchError("Options.Queue", "no compute environment of queue %s runs jobs: %s", k.o.Queue,
			strings.TrimSpace(strings.Join(why, "; ")))
	}
	return nil
}

// planDefinition describes the user's job definition.
func (k *launcher) planDefinition(ctx context.Context, c *clients, p *plan) error {
	name := k.o.Definition
	in := &batch.DescribeJobDefinitionsInput{JobDefinitions: []string{name}}
	if !strings.Contains(name, ":") {
		in = &batch.DescribeJobDefinitionsInput{JobDefinitionName: &name, Status: aws.String("ACTIVE")}
	}
	var found *types.JobDefinition
	for {
		out, err := c.describeJobDefinitions(ctx, in)
		if err != nil {
			return failed(err, "describing job definition %s", name)
		}
		for i, d := range out.JobDefinitions {
			if aws.ToString(d.Status) != "INACTIVE" &&
				(found == nil || aws.ToInt32(d.Revision) > aws.ToInt32(found.Revision)) {
				found = &out.JobDefinitions[i]
			}
		}
		if aws.ToString(out.NextToken) == "" {
			break
		}
		in.NextToken = out.NextToken
	}
	switch {
	case found == nil:
		return batchError("Options.Definition", "there is no active job definition %s in region %s", name, c.region)
	case aws.ToString(found.Type) != "container" || found.ContainerProperties == nil:
		return batchError("Options.Definition", "job definition %s is of type %s, expected container with containerProperties", name, aws.ToString(found.Type))
	}
	if p.vcpus == 0 {
		p.vcpus = vcpusOf(found.ContainerProperties)
	}
	return nil
}

func vcpusOf(p *types.ContainerProperties) float64 {
	for _, r := range p.ResourceRequirements {
		if r.Type == types.ResourceTypeVcpu {
			if f, err := strconv.ParseFloat(aws.ToString(r.Value), 64); err == nil {
				return f
			}
		}
	}
	//lint:ignore SA1019 old definitions have only this
	return float64(aws.ToInt32(p.Vcpus))
}
