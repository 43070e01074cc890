package batchtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// definition is one revision of a job definition.
type definition struct {
	Name      string
	Revision  int
	Type      string
	Active    bool
	Container map[string]any
	Platforms []string
}

func (d *definition) arn() string {
	return fmt.Sprintf("arn:aws:batch:%s:1:job-definition/%s:%d", Region, d.Name, d.Revision)
}

// job is a plain job, which is its own and only child, or the parent of an array.
type job struct {
	id, name   string
	array      bool
	definition *definition
	command    []string
	env        []string
	terminated bool
	children   []*child
}

type child struct {
	index   int
	status  string
	process *os.Process
	code    int
	ran     bool
	reason  string // of the status
	why     string // of the container
	stream  string
	ending  string // the reason given by the call that ends it
}

func (c *child) kill() {
	if c.process != nil {
		_ = syscall.Kill(-c.process.Pid, syscall.SIGKILL)
	}
}

func (c *child) over() bool { return c.status == "SUCCEEDED" || c.status == "FAILED" }

func (j *job) over() bool { s := j.status(); return s == "SUCCEEDED" || s == "FAILED" }

func (j *job) status() string {
	if !j.array {
		return j.children[0].status
	}
	failed := false
	for _, c := range j.children {
		if !c.over() {
			return "PENDING"
		}
		failed = failed || c.status == "FAILED"
	}
	if failed {
		return "FAILED"
	}
	return "SUCCEEDED"
}

func (s *Server) submitJob(in map[string]any) (any, *Error) {
	if text(in, "jobQueue") != Queue {
		return nil, clientError("Job queue %s not found", text(in, "jobQueue"))
	}
	d := s.definitionOf(text(in, "jobDefinition"))
	if d == nil {
		return nil, clientError("JobDefinition not found: %s", text(in, "jobDefinition"))
	}
	n := 1
	size := object(in, "arrayProperties")
	if size != nil {
		if n = number(size, "size"); n < 2 || n > 10000 {
			return nil, clientError("Array size must be between 2 and 10,000")
		}
	}
	j := &job{id: fmt.Sprintf("%08d-0000-4000-8000-000000000000", len(s.jobs)+1), name: text(in, "jobName"),
		array: size != nil, definition: d}
	o := object(in, "containerOverrides")
	if j.command = texts(o, "command"); len(j.command) == 0 {
		j.command = texts(d.Container, "command")
	}
	for _, e := range append(list(d.Container, "environment"), list(o, "environment")...) {
		if strings.HasPrefix(text(e, "name"), "AWS_BATCH") {
			return nil, clientError("Environment variables must not start with AWS_BATCH")
		}
		j.env = append(j.env, text(e, "name")+"="+text(e, "value"))
	}
	for i := range n {
		j.children = append(j.children, &child{index: i, status: "RUNNABLE"})
	}
	s.jobs = append(s.jobs, j)
	s.submitted = append(s.submitted, in)
	s.schedule()
	return map[string]any{"jobId": j.id, "jobName": j.name, "jobArn": "arn:aws:batch:" + Region + ":1:job/" + j.id}, nil
}

func list(in map[string]any, key string) (l []map[string]any) {
	v, _ := in[key].([]any)
	for _, x := range v {
		if m, ok := x.(map[string]any); ok {
			l = append(l, m)
		}
	}
	return l
}

// schedule starts the jobs and children that may run. The caller holds s.mu.
func (s *Server) schedule() {
	if s.closed {
		return
	}
	running := 0
	for _, j := range s.jobs {
		for _, c := range j.children {
			if c.status == "RUNNING" {
				running++
			}
		}
	}
	for _, j := range s.jobs {
		for _, c := range j.children {
			if c.status == "RUNNABLE" && !j.terminated && (s.set.Running == 0 || running < s.set.Running) {
				running++
				s.start(j, c)
			}
		}
	}
}

// start runs a container. The caller holds s.mu.
func (s *Server) start(j *job, c *child) {
	c.stream = fmt.Sprintf("%s/default/%s-%d", j.name, j.id, c.index)
	out, err := os.Create(filepath.Join(s.dir, filepath.Base(c.stream)+".log"))
	if err != nil {
		s.finish(c, "FAILED", "no space for the log")
		return
	}
	cmd := exec.Command(j.command[0], j.command[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + s.dir, "GORACE=atexit_sleep_ms=0",
		"AWS_BATCH_JOB_ID=" + j.childID(c), "AWS_BATCH_JQ_NAME=" + Queue, "AWS_BATCH_CE_NAME=" + Environment,
		"AWS_BATCH_JOB_ATTEMPT=1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", // of the jobs' role
	}, j.env...)
	if j.array {
		cmd.Env = append(cmd.Env, "AWS_BATCH_JOB_ARRAY_INDEX="+strconv.Itoa(c.index),
			"AWS_BATCH_JOB_ARRAY_SIZE="+strconv.Itoa(len(j.children)))
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.status, c.ran = "RUNNING", true
	if err := cmd.Start(); err != nil {
		_ = out.Close()
		c.stream, c.ran = "", false
		c.why = "CannotStartContainerError: Error response from daemon: failed to create task: exec: \"" +
			j.command[0] + "\": no such file or directory"
		s.finish(c, "FAILED", "Task failed to start")
		return
	}
	c.process = cmd.Process
	s.served.Go(func() {
		_ = cmd.Wait()
		_ = out.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		c.kill() // the rest of the container
		c.process = nil
		c.code = cmd.ProcessState.ExitCode()
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			c.code = 128 + int(w.Signal())
		}
		reason := "Essential container in task exited"
		status := "FAILED"
		if c.code == 0 {
			status = "SUCCEEDED"
		}
		if c.ending != "" {
			status, reason = "FAILED", c.ending
		}
		s.finish(c, status, reason)
	})
}

func (s *Server) finish(c *child, status, reason string) {
	c.status, c.reason = status, reason
	s.schedule()
}

func (j *job) childID(c *child) string {
	if !j.array {
		return j.id
	}
	return j.id + ":" + strconv.Itoa(c.index)
}

// end ends a child, as a user or a host does. The caller holds s.mu.
func (s *Server) end(c *child, reason string) {
	switch {
	case c.over():
	case c.process == nil:
		s.finish(c, "FAILED", reason)
	case c.ending == "":
		c.ending = reason
		_ = syscall.Kill(-c.process.Pid, syscall.SIGTERM)
		after := time.Duration(s.set.StopTimeout) * time.Millisecond
		if after == 0 {
			after = 300 * time.Millisecond
		}
		time.AfterFunc(after, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			c.kill()
		})
	}
}

// Reclaim ends child i of a job (0 for a plain job) without an exit status, as when EC2 reclaims
// the host of a spot instance. It returns false if the child is not running.
func (s *Server) Reclaim(number, i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number >= len(s.jobs) || i >= len(s.jobs[number].children) || s.jobs[number].children[i].process == nil {
		return false
	}
	c := s.jobs[number].children[i]
	c.ending, c.ran = "Host EC2 (instance i-0123456789abcdef0) terminated.", false
	c.kill()
	return true
}

func (s *Server) terminateJob(in map[string]any) (any, *Error) {
	for _, j := range s.jobs {
		if j.id != text(in, "jobId") {
			continue
		}
		if text(in, "reason") == "" {
			return nil, clientError("Reason must not be empty")
		}
		if s.set.Deaf {
			return map[string]any{}, nil
		}
		j.terminated = true
		for _, c := range j.children {
			s.end(c, text(in, "reason"))
		}
	}
	return map[string]any{}, nil // also for an unknown job
}
