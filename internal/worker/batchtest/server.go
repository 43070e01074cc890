// Package batchtest simulates AWS Batch, Secrets Manager, SSM's parameters and CloudWatch's logs
// for tests: a local HTTP server that implements the part of their JSON APIs that leat uses, and
// runs containers as child processes of the test.
//
//	s := batchtest.New(t, batchtest.Settings{})
//	k := awsbatch.New(&awsbatch.Options{Endpoint: s.URL, Queue: batchtest.Queue,
//		Image: "image", Secret: "secretsmanager:" + batchtest.Secret})
//
// It follows the services' API references: statuses from SUBMITTED to SUCCEEDED or FAILED, a parent
// of an array that is PENDING until its children have ended, children ID:INDEX, 100 jobs in one
// DescribeJobs, unknown jobs left out of the answer, errors by code and message, and the reasons
// that hosts, containers and users cause. There is one queue and one compute environment.
// Containers have the environment that AWS and the job set, not that of the test.
package batchtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Names of predefined resources.
const (
	Queue       = "spot-queue"
	Environment = "spot-environment"
	Definition  = "worker"        // 2 vCPUs, 4096 MiB, revisions 1 and 2
	MultiNode   = "mpi"           // a definition that is not of type container
	Secret      = "leat/endpoint" // in Secrets Manager
	Region      = "eu-test-1"
)

// Settings configures the services. The zero value is a queue with 256 vCPUs and no restrictions.
type Settings struct {
	// MaxvCPUs of the compute environment; 0: 256. An Unmanaged one has none.
	MaxvCPUs  int
	Unmanaged bool
	// Type of the compute environment; "": SPOT.
	Type string
	// QueueState and EnvironmentState; "": ENABLED.
	QueueState, EnvironmentState string
	// Running is how many jobs and children run at once; 0: all.
	Running int
	// StopTimeout is from SIGTERM to SIGKILL in milliseconds; 0: 300.
	StopTimeout int
	// Forgetful omits the children of arrays from answers.
	Forgetful bool
	// NoJobs makes DescribeJobs answer with an empty list.
	NoJobs bool
	// Deaf accepts terminations without any effect.
	Deaf bool
	// Before is called before each call of an operation, with its name ("SubmitJob"). If it returns
	// an error, the server answers with that. It may block, and is called concurrently.
	Before func(operation string) *Error
	// After is like Before, but is called after the operation has taken effect.
	After func(operation string) *Error
}

// Error is an error that a service answers. Without a code, the connection is closed instead.
type Error struct {
	Status  int
	Code    string
	Message string
}

// Errors of the services.
var (
	Throttled = &Error{429, "TooManyRequestsException", "Too Many Requests"}
	Denied    = &Error{403, "AccessDeniedException", "User: arn:aws:iam::1:user/u is not authorized to perform: it"}
	Broken    = &Error{}
)

func clientError(format string, a ...any) *Error {
	return &Error{http.StatusBadRequest, "ClientException", fmt.Sprintf(format, a...)}
}

// Server simulates the services of one account.
type Server struct {
	// URL is the endpoint of all services.
	URL string

	dir    string
	served sync.WaitGroup // containers

	mu          sync.Mutex
	set         Settings
	closed      bool
	jobs        []*job
	definitions []*definition
	secrets     map[string][]string // versions
	parameters  map[string][]string
	calls       map[string]int
	submitted   []map[string]any
	signed      map[string]bool // service/region
}

// New starts the services, and sets region and credentials for the test. At the end of the test,
// all containers are ended.
func New(t testing.TB, set Settings) *Server {
	t.Helper()
	for _, name := range []string{"AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_REGION", Region)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		URL: "http://" + l.Addr().String(), dir: dir, set: set,
		secrets: map[string][]string{Secret: {"old"}}, parameters: map[string][]string{}, calls: map[string]int{},
		signed: map[string]bool{},
	}
	for i := range 2 {
		s.definitions = append(s.definitions,
			&definition{Name: Definition, Revision: i + 1, Type: "container", Active: true, Container: map[string]any{
				"image": "image", "resourceRequirements": []any{map[string]any{"type": "VCPU", "value": "2"},
					map[string]any{"type": "MEMORY", "value": "4096"}},
			}})
	}
	s.definitions = append(s.definitions, &definition{Name: MultiNode, Revision: 1, Type: "multinode", Active: true})
	h := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(l)
	}()
	t.Cleanup(func() {
		_ = h.Close()
		<-done
		s.close()
	})
	return s
}

func (s *Server) close() {
	s.mu.Lock()
	s.closed = true
	for _, j := range s.jobs {
		for _, c := range j.children {
			c.kill()
		}
	}
	s.mu.Unlock()
	s.served.Wait()
}

// Set changes the settings.
func (s *Server) Set(change func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.set)
	s.schedule()
}

// Calls returns the number of calls of an operation.
func (s *Server) Calls(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[operation]
}

// Signed reports whether a call was signed for a service in the region of these tests.
func (s *Server) Signed(service string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signed[service+"/"+Region]
}

// Submitted returns the bodies of all SubmitJob calls that took effect.
func (s *Server) Submitted() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]map[string]any(nil), s.submitted...)
}

// Left returns the identifiers of jobs that have not ended.
func (s *Server) Left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, j := range s.jobs {
		if !j.over() {
			ids = append(ids, j.id)
		}
	}
	return ids
}

// Definitions returns the names of active job definitions, except the predefined ones.
func (s *Server) Definitions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, d := range s.definitions[3:] {
		if d.Active {
			names = append(names, d.Name)
		}
	}
	return names
}

// Value returns the newest version of a secret, or of a parameter.
func (s *Server) Value(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := append(append([]string(nil), s.secrets[name]...), s.parameters[name]...)
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation, service := operationOf(r)
	var in map[string]any
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	s.mu.Lock()
	s.calls[operation]++
	// Credential=KEY/DATE/REGION/SERVICE/aws4_request
	if _, rest, ok := strings.Cut(r.Header.Get("Authorization"), "Credential=test/"); ok {
		if f := strings.Split(rest, "/"); len(f) > 2 {
			s.signed[f[2]+"/"+f[1]] = true
		}
	}
	before, after := s.set.Before, s.set.After
	s.mu.Unlock()
	var out any
	var e *Error
	switch {
	case err != nil || r.Method != http.MethodPost:
		e = clientError("malformed: %v", err)
	case r.Header.Get("Authorization") == "":
		e = &Error{http.StatusForbidden, "UnrecognizedClientException",
			"The security token included in the request is invalid."}
	}
	if e == nil && before != nil {
		e = before(operation)
	}
	if e == nil {
		s.mu.Lock()
		out, e = s.do(service, operation, in)
		s.mu.Unlock()
	}
	if e == nil && after != nil {
		e = after(operation)
	}
	if e != nil && e.Code == "" {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if e != nil {
		w.Header().Set("X-Amzn-ErrorType", e.Code)
		w.WriteHeader(e.Status)
		out = map[string]any{"message": e.Message, "__type": e.Code}
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// operationOf returns the operation of a request. Batch's requests name it in their path, the
// others in a header.
func operationOf(r *http.Request) (operation, service string) {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		service, operation, _ = strings.Cut(target, ".")
		return operation, service
	}
	for _, o := range []string{"SubmitJob", "DescribeJobs", "ListJobs", "TerminateJob", "RegisterJobDefinition",
		"DeregisterJobDefinition", "DescribeJobDefinitions", "DescribeJobQueues", "DescribeComputeEnvironments"} {
		if r.URL.Path == "/v1/"+strings.ToLower(o) {
			return o, "batch"
		}
	}
	return r.URL.Path, ""
}

func (s *Server) do(service, operation string, in map[string]any) (any, *Error) {
	if service == "batch" {
		switch operation {
		case "SubmitJob":
			return s.submitJob(in)
		case "DescribeJobs":
			return s.describeJobs(in)
		case "ListJobs":
			return s.listJobs(in)
		case "TerminateJob":
			return s.terminateJob(in)
		case "RegisterJobDefinition":
			return s.registerJobDefinition(in)
		case "DeregisterJobDefinition":
			return s.deregisterJobDefinition(in)
		case "DescribeJobDefinitions":
			return s.describeJobDefinitions(in)
		case "DescribeJobQueues":
			return s.describeJobQueues(in)
		case "DescribeComputeEnvironments":
			return s.describeComputeEnvironments()
		}
	}
	switch operation {
	case "PutSecretValue", "GetSecretValue", "DescribeSecret":
		return s.secret(operation, in)
	case "PutParameter", "GetParameter":
		return s.parameter(operation, in)
	case "GetLogEvents":
		return s.logEvents(in)
	}
	return nil, &Error{http.StatusNotFound, "UnknownOperationException", operation}
}

func text(in map[string]any, key string) string {
	v, _ := in[key].(string)
	return v
}

func number(in map[string]any, key string) int {
	v, _ := in[key].(float64)
	return int(v)
}

func object(in map[string]any, key string) map[string]any {
	v, _ := in[key].(map[string]any)
	return v
}

func texts(in map[string]any, key string) (list []string) {
	v, _ := in[key].([]any)
	for _, x := range v {
		if t, ok := x.(string); ok {
			list = append(list, t)
		}
	}
	return list
}

// logEvents returns what a container has written.
func (s *Server) logEvents(in map[string]any) (any, *Error) {
	b, err := os.ReadFile(filepath.Join(s.dir, filepath.Base(text(in, "logStreamName"))+".log"))
	if err != nil || text(in, "logGroupName") != "/aws/batch/job" {
		return nil, &Error{http.StatusBadRequest, "ResourceNotFoundException",
			"The specified log stream does not exist."}
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if n := number(in, "limit"); n > 0 && len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	events := []any{}
	for i, l := range lines {
		events = append(events, map[string]any{"timestamp": 1700000000000 + i, "message": l})
	}
	return map[string]any{"events": events}, nil
}
