//go:build !nocloud

package awsbatch

import (
	"strings"
	"testing"

	"leat/internal/worker/batchtest"
	"leat/internal/worker/workertest"
)

func TestRefusedOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   []string
	}{
		{"nothing at all", func(o *Options) { *o = Options{} },
			[]string{"Queue is empty", "Definition and Image are empty", "Secret is empty"}},
		{"two definitions", func(o *Options) { o.Image = "x" }, []string{"expected one of them"}},
		{"a role for a definition", func(o *Options) { o.JobRole = "x" }, []string{"expected none with Definition"}},
		{"negative sizes", func(o *Options) { o.VCPUs, o.MemoryMiB = -1, -1 },
			[]string{"VCPUs is -1", "MemoryMiB is -1"}},
		{"a secret without a store", func(o *Options) { o.Secret = "mine" },
			[]string{`"mine"`, "secretsmanager:NAME or ssm:NAME"}},
		{"a secret of another store", func(o *Options) { o.Secret = "vault:mine" }, []string{"secretsmanager:NAME"}},
		{"a secret without a name", func(o *Options) { o.Secret = "ssm:" }, []string{"secretsmanager:NAME"}},
		{"a secret with a version", func(o *Options) { o.Secret = "ssm:a#3" }, []string{"secretsmanager:NAME"}},
		{"variables", func(o *Options) { o.Env = []string{"X", "LEAT_WORKER_NAME=x", "AWS_BATCH_X=1"} },
			[]string{"expected NAME=VALUE", "LEAT_WORKER_NAME", "AWS_BATCH_X"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, batchtest.Settings{}, 1, "exit 0")
			c.change(&r.kind.o)
			workertest.WantError(t, r.kind.Check(t.Context()), c.want...)
			_, err := r.kind.Start(t.Context(), r.Options)
			workertest.WantError(t, err, c.want...)
			if len(r.s.Submitted()) > 0 {
				t.Error("it was submitted")
			}
		})
	}
	r := newRun(t, batchtest.Settings{}, 0, "")
	r.Options.Command, r.Options.Endpoint.Addresses, r.Options.Endpoint.Pin, r.Options.Endpoint.Token = []string{"true"}, nil, "", ""
	_, err := r.kind.Start(t.Context(), r.Options)
	workertest.WantError(t, err, "Workers is 0", "absolute path", "Endpoint is empty")
}

func TestCheck(t *testing.T) {
	denied := func(name string) func(string) *batchtest.Error {
		return func(operation string) *batchtest.Error {
			if operation == name {
				return batchtest.Denied
			}
			return nil
		}
	}
	for _, c := range []struct {
		name   string
		set    batchtest.Settings
		change func(*Options)
		want   string // "": it is well
	}{
		{"all is well", batchtest.Settings{}, nil, ""},
		{"jobs can't be described", batchtest.Settings{Before: denied("DescribeJobs")}, nil,
			"describing jobs (batch:DescribeJobs)"},
		{"a revision", batchtest.Settings{}, func(o *Options) { o.Definition += ":1" }, ""},
		{"an ARN", batchtest.Settings{},
			func(o *Options) { o.Definition = "arn:aws:batch:eu-test-1:1:job-definition/worker:2" }, ""},
		{"an image", batchtest.Settings{}, func(o *Options) { o.Definition, o.Image = "", "x" }, ""},
		{"a parameter that is not there yet", batchtest.Settings{}, func(o *Options) { o.Secret = "ssm:/new" }, ""},
		{"no queue", batchtest.Settings{}, func(o *Options) { o.Queue = "other" },
			"there is no job queue other in region eu-test-1"},
		{"a disabled queue", batchtest.Settings{QueueState: "DISABLED"}, nil,
			"queue spot-queue is disabled and takes no jobs"},
		{"a disabled environment", batchtest.Settings{EnvironmentState: "DISABLED"}, nil,
			"no compute environment of queue spot-queue runs jobs: spot-environment is DISABLED"},
		{"no definition", batchtest.Settings{}, func(o *Options) { o.Definition = "other" },
			"there is no active job definition other"},
		{"no such revision", batchtest.Settings{}, func(o *Options) { o.Definition = "worker:7" },
			"there is no active job definition worker:7"},
		{"a definition of several nodes", batchtest.Settings{}, func(o *Options) { o.Definition = batchtest.MultiNode },
			"is of type multinode"},
		{"no secret", batchtest.Settings{}, func(o *Options) { o.Secret = "secretsmanager:other" },
			"there is no secret other in Secrets Manager"},
		{"a secret that may not be looked at", batchtest.Settings{Before: denied("DescribeSecret")}, nil, ""},
		{"a queue that may not be looked at", batchtest.Settings{Before: denied("DescribeJobQueues")}, nil,
			"describing queue spot-queue: User: arn:aws:iam::1:user/u is not authorized to perform: it (AccessDeniedException)"},
		{"no answer", batchtest.Settings{Before: func(string) *batchtest.Error { return batchtest.Broken }}, nil,
			"describing queue spot-queue: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, c.set, 1, "exit 0")
			if c.change != nil {
				c.change(&r.kind.o)
			}
			err := r.kind.Check(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, expected %q", err, c.want)
			}
			if r.s.Value(batchtest.Secret) != "old" || len(r.s.Submitted()) > 0 || len(r.s.Definitions()) > 0 {
				t.Error("Check has done more than to look")
			}
		})
	}
	t.Run("no region", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{}, 1, "exit 0")
		t.Setenv("AWS_REGION", "")
		t.Setenv("AWS_DEFAULT_REGION", "")
		workertest.WantError(t, r.kind.Check(t.Context()), "no region")
		r.kind.o.Region = batchtest.Region
		if err := r.kind.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{}, 1, "exit 0")
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "")
		workertest.WantError(t, r.kind.Check(t.Context()), "describing queue", "credentials")
	})
}
