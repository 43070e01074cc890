package batchtest

import (
	"strconv"
	"strings"
)

func (s *Server) describeJobs(in map[string]any) (any, *Error) {
	ids := texts(in, "jobs")
	if len(ids) == 0 || len(ids) > 100 {
		return nil, clientError("Number of jobs must be between 1 and 100, not %d", len(ids))
	}
	jobs := []any{}
	for _, id := range ids {
		parent, index, isChild := strings.Cut(id, ":")
		for _, j := range s.jobs {
			if j.id != parent || s.set.NoJobs {
				continue
			}
			d := map[string]any{"jobId": id, "jobName": j.name, "jobQueue": Queue, "jobDefinition": j.definition.arn(),
				"startedAt": 0, "isTerminated": j.terminated, "status": j.status()}
			i, err := strconv.Atoi(index)
			switch {
			case !isChild && j.array:
				summary := map[string]int{}
				for _, c := range j.children {
					summary[c.status]++
				}
				d["arrayProperties"] = map[string]any{"size": len(j.children), "statusSummary": summary}
			case !isChild:
				s.childDetail(d, j.children[0])
			case err == nil && j.array && !s.set.Forgetful && i >= 0 && i < len(j.children):
				d["arrayProperties"] = map[string]any{"index": i}
				s.childDetail(d, j.children[i])
			default:
				continue
			}
			jobs = append(jobs, d)
		}
	}
	return map[string]any{"jobs": jobs}, nil
}

func (s *Server) childDetail(d map[string]any, c *child) {
	d["status"] = c.status
	container := map[string]any{"image": "image",
		"logConfiguration": map[string]any{"logDriver": "awslogs", "options": map[string]string{}}}
	if c.stream != "" {
		container["logStreamName"] = c.stream
	}
	if c.over() {
		d["statusReason"] = c.reason
		if c.ran {
			container["exitCode"] = c.code
		}
		if c.why != "" {
			container["reason"] = c.why
		}
		attempt := map[string]any{"statusReason": c.reason, "container": container}
		d["attempts"] = []any{attempt}
	}
	d["container"] = container
}

func (s *Server) listJobs(in map[string]any) (any, *Error) {
	l := []any{}
	for _, f := range list(in, "filters") {
		for _, j := range s.jobs {
			if text(f, "name") == "JOB_NAME" && len(texts(f, "values")) == 1 && texts(f, "values")[0] == j.name {
				l = append(l, map[string]any{"jobId": j.id, "jobName": j.name, "status": j.status()})
			}
		}
	}
	return map[string]any{"jobSummaryList": l}, nil
}

// definitionOf finds a definition by its ARN, by NAME:REVISION, or the newest by its name.
func (s *Server) definitionOf(name string) *definition {
	var found *definition
	for _, d := range s.definitions {
		if d.Active && (name == d.arn() || name == d.Name+":"+strconv.Itoa(d.Revision) || name == d.Name) {
			found = d
		}
	}
	return found
}

func (s *Server) registerJobDefinition(in map[string]any) (any, *Error) {
	d := &definition{Name: text(in, "jobDefinitionName"), Revision: 1, Type: text(in, "type"), Active: true,
		Container: object(in, "containerProperties"), Platforms: texts(in, "platformCapabilities")}
	if d.Name == "" || strings.ContainsAny(d.Name, " :/") || text(d.Container,
		"image") == "" || len(list(d.Container, "resourceRequirements")) != 2 {
		return nil, clientError("Error executing request, Exception : the job definition is not complete")
	}
	if len(d.Platforms) == 1 && d.Platforms[0] == "FARGATE" && text(d.Container, "executionRoleArn") == "" {
		return nil, clientError("Fargate needs an executionRoleArn")
	}
	for _, o := range s.definitions {
		if o.Name == d.Name {
			d.Revision = o.Revision + 1
		}
	}
	s.definitions = append(s.definitions, d)
	return map[string]any{"jobDefinitionName": d.Name, "jobDefinitionArn": d.arn(), "revision": d.Revision}, nil
}

func (s *Server) deregisterJobDefinition(in map[string]any) (any, *Error) {
	if d := s.definitionOf(text(in, "jobDefinition")); d != nil {
		d.Active = false
	}
	return map[string]any{}, nil
}

// describeJobDefinitions returns one definition per page.
func (s *Server) describeJobDefinitions(in map[string]any) (any, *Error) {
	var found []any
	for _, d := range s.definitions {
		named := text(in, "jobDefinitionName") == d.Name && d.Active
		for _, n := range texts(in, "jobDefinitions") {
			named = named || n == d.arn() || n == d.Name+":"+strconv.Itoa(d.Revision)
		}
		if !named {
			continue
		}
		status := "ACTIVE"
		if !d.Active {
			status = "INACTIVE"
		}
		m := map[string]any{"jobDefinitionName": d.Name, "jobDefinitionArn": d.arn(), "revision": d.Revision,
			"status": status, "type": d.Type}
		if d.Container != nil {
			m["containerProperties"] = d.Container
		}
		found = append(found, m)
	}
	page, _ := strconv.Atoi(text(in, "nextToken"))
	out := map[string]any{"jobDefinitions": []any{}}
	if page < len(found) {
		out["jobDefinitions"] = found[page : page+1]
	}
	if page+1 < len(found) {
		out["nextToken"] = strconv.Itoa(page + 1)
	}
	return out, nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (s *Server) describeJobQueues(in map[string]any) (any, *Error) {
	queues := []any{}
	for _, n := range texts(in, "jobQueues") {
		if n == Queue {
			queues = append(queues, map[string]any{
				"jobQueueName": Queue, "jobQueueArn": "arn:aws:batch:" + Region + ":1:job-queue/" + Queue,
				"priority": 1, "state": or(s.set.QueueState, "ENABLED"), "status": "VALID",
				"computeEnvironmentOrder": []any{map[string]any{"order": 1,
					"computeEnvironment": "arn:aws:batch:" + Region + ":1:compute-environment/" + Environment}},
			})
		}
	}
	return map[string]any{"jobQueues": queues}, nil
}

func (s *Server) describeComputeEnvironments() (any, *Error) {
	e := map[string]any{
		"computeEnvironmentName": Environment,
		"computeEnvironmentArn":  "arn:aws:batch:" + Region + ":1:compute-environment/" + Environment,
		"state":                  or(s.set.EnvironmentState, "ENABLED"), "status": "VALID", "type": "MANAGED",
	}
	if s.set.Unmanaged {
		e["type"] = "UNMANAGED"
	} else {
		n := s.set.MaxvCPUs
		if n == 0 {
			n = 256
		}
		e["computeResources"] = map[string]any{"type": or(s.set.Type, "SPOT"), "maxvCpus": n,
			"subnets": []string{"subnet-1"}}
	}
	return map[string]any{"computeEnvironments": []any{e}}, nil
}
