//go:build !nocloud

package awsbatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leat/internal/worker/batchtest"
	"leat/internal/worker/coordinator"
	"leat/internal/worker/protocol"
	"leat/internal/worker/workertest"
	"leat/worker"
	leatbatch "leat/worker/internal/batch"
)

func arrays(s *batchtest.Server) (sizes []int) {
	for _, in := range s.Submitted() {
		n := 0
		if a, ok := in["arrayProperties"].(map[string]any); ok {
			size, _ := a["size"].(float64)
			n = int(size)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

func TestWorkerIdentity(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("%d", n), func(t *testing.T) {
			// The environment of a container is at the end of its log, which a failure quotes.
			r := newRun(t, batchtest.Settings{}, n, "env; exit 1")
			r.Options.First = 7
			r.kind.o.Env = []string{"GREETING=good morning=x"}
			r.start()
			for name, e := range r.Await(n) {
				// As the worker's side reads it.
				env := map[string]string{}
				for l := range strings.SplitSeq(e.Log, "\n") {
					k, v, _ := strings.Cut(l, "=")
					env[k] = v
				}
				want := map[string]string{worker.EnvSlots: "2", "GOMAXPROCS": "2", "AWS_REGION": batchtest.Region,
					"GREETING": "good morning=x"}
				if n == 1 {
					want[worker.EnvName] = name
				} else {
					want[protocol.EnvKind], want[protocol.EnvIndexFrom], want[protocol.EnvFirst] = launcherName,
						"AWS_BATCH_JOB_ARRAY_INDEX", "7"
					if w := worker.WorkerName(launcherName, 7+int(env["AWS_BATCH_JOB_ARRAY_INDEX"][0]-'0')); w != name {
						t.Errorf("%s runs as %s", name, w)
					}
				}
				for k, v := range want {
					if env[k] != v {
						t.Errorf("%s finds %s=%q, not %q", name, k, env[k], v)
					}
				}
			}
		})
	}
}

func TestArraySizeLimit(t *testing.T) {
	for _, c := range []struct {
		workers, max int
		want         []int // 0 is a plain job
	}{
		{1, 10000, []int{0}}, {2, 10000, []int{2}}, {10, 4, []int{4, 4, 2}}, {9, 4, []int{4, 4, 0}},
	} {
		r := newRun(t, batchtest.Settings{}, c.workers, "exit 0")
		r.kind.maxArray = c.max
		f := r.start()
		ends := r.Await(c.workers)
		for i := range c.workers {
			if e, ok := ends[worker.WorkerName(launcherName, i)]; !ok || e.Err != nil {
				t.Errorf("worker %d: %+v", i, e)
			}
		}
		if d := cmp.Diff(c.want, arrays(r.s)); d != "" {
			t.Errorf("%d workers: %s", c.workers, d)
		}
		if n := len(strings.Fields(f.Jobs())) - 1; n != len(c.want) {
			t.Errorf("Jobs() is %q", f.Jobs())
		}
	}
	if k := newLauncher(nil); k.maxArray != 10000 {
		t.Errorf("arrays of %d", k.maxArray)
	}
}

func TestDescribeManyWorkersInPages(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 10,001 jobs")
	}
	r := newRun(t, batchtest.Settings{Running: 1, MaxvCPUs: 2}, 10001, "exec sleep 600")
	f := r.start()
	if d := cmp.Diff([]int{10000, 0}, arrays(r.s)); d != "" {
		t.Error(d)
	}
	before := r.s.Calls("DescribeJobs")
	workertest.Eventually(t, "jobs are not looked at", func() bool { return r.s.Calls("DescribeJobs") > before+2 })
	r.Stop(f)
	if left := r.s.Left(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	// Children are asked for 100 at a time, and only once all of them have ended.
	if n := r.s.Calls("DescribeJobs"); n < 100 {
		t.Errorf("%d calls", n)
	}
}

func TestListChildrenOnlyAfterChange(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 250, `[ "$AWS_BATCH_JOB_ARRAY_INDEX" = 207 ] || exec sleep 600`)
	r.s.Set(func(set *batchtest.Settings) { set.MaxvCPUs, set.Running = 1000, 0 })
	// The last of them is queued until the test says so.
	r.s.Set(func(set *batchtest.Settings) { set.Running = 200 })
	f := r.start()
	calls := r.s.Calls("DescribeJobs")
	workertest.Eventually(t, "the array is not looked at", func() bool { return r.s.Calls("DescribeJobs") >= calls+5 })
	if len(r.Exits()) > 0 {
		t.Errorf("exited: %v", r.Exits())
	}
	r.s.Set(func(set *batchtest.Settings) { set.Running = 208 })
	if e := r.Await(1)["awsbatch-207"]; e.Err != nil || e.Job != "job 00000001-0000-4000-8000-000000000000:207" {
		t.Errorf("%+v", e)
	}
	r.Stop(f)
}

func TestExitDetails(t *testing.T) {
	t.Run("a status", func(t *testing.T) {
		for _, n := range []int{1, 3} {
			r := newRun(t, batchtest.Settings{}, n, "echo went wrong >&2; exit 3")
			r.start()
			for name, e := range r.Await(n) {
				workertest.WantError(t, e.Err, "ended with status 3", "Essential container in task exited", "leat-test-1-0-",
					"/default/0", "/aws/batch/job")
				if e.Log != "went wrong" {
					t.Errorf("%s: log %q", name, e.Log)
				}
			}
		}
	})
	t.Run("a signal", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{}, 1, "kill -9 $$")
		r.start()
		workertest.WantError(t, r.Await(1)["awsbatch-0"].Err, "ended with status 137, which shells return for signal 9")
	})
	t.Run("spot reclaim", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{}, 3, "exec sleep 600")
		r.start()
		workertest.Eventually(t, "it does not run", func() bool { return r.s.Reclaim(0, 1) })
		ends := r.Await(1)
		workertest.WantError(t, ends["awsbatch-1"].Err, "failed without an exit status",
			"Host EC2 (instance i-0123456789abcdef0) terminated.")
	})
	t.Run("an image without the program", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{}, 2, "")
		r.kind.o.Program = "/opt/no-such-leat"
		r.start()
		for _, e := range r.Await(2) {
			workertest.WantError(t, e.Err, "CannotStartContainerError", "/opt/no-such-leat", "Task failed to start")
			if strings.Contains(e.Err.Error(), "CloudWatch") {
				t.Errorf("there is no log: %v", e.Err)
			}
		}
	})
	t.Run("logs that may not be read", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{Before: func(operation string) *batchtest.Error {
			if operation == "GetLogEvents" {
				return batchtest.Denied
			}
			return nil
		}}, 1, "echo went wrong; exit 3")
		r.start()
		e := r.Await(1)["awsbatch-0"]
		workertest.WantError(t, e.Err, "status 3", "CloudWatch")
		if e.Log != "" {
			t.Errorf("log %q", e.Log)
		}
	})
	t.Run("somebody terminates it", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{}, 1, "exec sleep 600")
		f, _ := r.start().(*fleet)
		if err := f.terminate(t.Context()); err != nil {
			t.Fatal(err)
		}
		workertest.WantError(t, r.Await(1)["awsbatch-0"].Err, "the run of leat has ended")
	})
}

func TestLongLogs(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, maxLogs+5,
		`i=0; while [ $i -lt 300 ]; do printf '%0200d\n' $i; i=$((i+1)); done; exit 1`)
	r.start()
	read := 0
	for _, e := range r.Await(maxLogs + 5) {
		if e.Log == "" {
			continue
		}
		read++
		if len(e.Log) > leatbatch.EndOfLog || !strings.HasSuffix(e.Log, "299") || !strings.HasPrefix(e.Log, "000") {
			t.Fatalf("%d bytes: %.30q", len(e.Log), e.Log)
		}
	}
	if read != maxLogs {
		t.Errorf("%d logs are read, not %d", read, maxLogs)
	}
}

func TestEndpointOnlyInSecret(t *testing.T) {
	for _, secret := range []string{"secretsmanager:" + batchtest.Secret, "ssm:/leat/run"} {
		t.Run(secret, func(t *testing.T) {
			r := newRun(t, batchtest.Settings{}, 2, "env; exit 1")
			r.kind.o.Secret = secret
			r.start()
			text, err := workertest.Endpoint.MarshalText()
			if err != nil {
				t.Fatal(err)
			}
			store, name, _ := strings.Cut(secret, ":")
			if got := r.s.Value(name); got != string(text) {
				t.Errorf("the secret is %q", got)
			}
			if all := fmt.Sprint(r.s.Submitted()); strings.Contains(all, workertest.Endpoint.Token) {
				t.Error("the token is in the job")
			}
			exited := ""
			for l := range strings.SplitSeq(r.Await(2)["awsbatch-1"].Log, "\n") {
				if v, ok := strings.CutPrefix(l, protocol.EnvSecret+"="); ok {
					exited = v
				}
			}
			gotStore, gotName, _ := strings.Cut(exited, ":")
			if gotStore != store || !strings.HasPrefix(gotName, name+"#") {
				t.Errorf("workers get %q", exited)
			}
			// Another run has written it since; these workers find their own.
			r.Options.Endpoint.Token, r.Options.First = "the-token-of-a-later-run-altogether", 2
			r.start()
			t.Setenv("AWS_ENDPOINT_URL", r.s.URL)
			got, err := Fetch()[gotStore](t.Context(), gotName)
			if err != nil || got != string(text) {
				t.Errorf("fetched: %q, %v", got, err)
			}
			if got, err := Fetch()[gotStore](t.Context(), name); err != nil || !strings.Contains(got, "later-run") {
				t.Errorf("fetched without a version: %q, %v", got, err)
			}
			_, err = Fetch()[gotStore](t.Context(), name+"#99")
			workertest.WantError(t, err, "reading ", name)
			service := map[string]string{"ssm": "ssm", "secretsmanager": "secretsmanager"}[store]
			if !r.s.Signed(service) || !r.s.Signed("batch") {
				t.Error("calls are not signed for their service and region")
			}
		})
	}
}

func TestJobDefinitionFromImage(t *testing.T) {
	r := newRun(t, batchtest.Settings{Type: "FARGATE"}, 2, "exec sleep 600")
	r.kind.o = Options{Queue: batchtest.Queue, Image: "registry/leat:1", Secret: r.kind.o.Secret, Endpoint: r.s.URL,
		ExecutionRole: "arn:aws:iam::1:role/e", JobRole: "arn:aws:iam::1:role/j", PublicIP: true, VCPUs: 0.5}
	f := r.start()
	if d := cmp.Diff([]string{"leat-test-1"}, r.s.Definitions()); d != "" {
		t.Error(d)
	}
	r.Stop(f)
	if left := r.s.Definitions(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	r.kind.o.ExecutionRole = ""
	workertest.WantError(t, r.kind.Check(t.Context()), "ExecutionRole is empty", "Fargate")
}

func TestResourceOptions(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 1, "exit 0")
	r.kind.o.VCPUs, r.kind.o.MemoryMiB = 3.5, 9000
	r.start()
	got := fmt.Sprint(r.s.Submitted()[0]["containerOverrides"])
	for _, want := range []string{"map[type:VCPU value:3.5]", "map[type:MEMORY value:9000]",
		"map[name:LEAT_WORKER_SLOTS value:3]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if got := fmt.Sprint(r.s.Submitted()[0]["retryStrategy"]); got != "map[attempts:1]" {
		t.Errorf("a lost worker comes back: %s", got)
	}
}

func TestVCPULimits(t *testing.T) {
	t.Run("one worker can't run", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{MaxvCPUs: 1}, 1, "exit 0")
		want := []string{"a worker takes 2 vCPUs", "1 at most", "would never start"}
		workertest.WantError(t, r.kind.Check(t.Context()), want...)
		_, err := r.kind.Start(t.Context(), r.Options)
		workertest.WantError(t, err, want...)
		if len(r.s.Submitted()) > 0 || r.s.Value(batchtest.Secret) != "old" {
			t.Error("something was done")
		}
	})
	for _, c := range []struct {
		name string
		set  batchtest.Settings
		n    int
		warn string
	}{
		{"not all at once", batchtest.Settings{MaxvCPUs: 5}, 3, `"at once"=2`},
		{"all at once", batchtest.Settings{MaxvCPUs: 6}, 3, ""},
		{"nobody knows", batchtest.Settings{Unmanaged: true}, 3, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			r := newRun(t, c.set, c.n, "exit 0")
			r.Options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			r.start()
			r.Await(c.n)
			if c.warn == "" && log.Len() > 0 || !strings.Contains(log.String(), c.warn) {
				t.Errorf("said: %q", &log)
			}
		})
	}
}

func TestRetryThrottledCalls(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 3, "exit 0")
	var n atomic.Int32
	r.s.Set(func(set *batchtest.Settings) {
		set.Before = func(string) *batchtest.Error {
			if n.Add(1)%3 != 0 {
				return batchtest.Throttled
			}
			return nil
		}
	})
	if err := r.kind.Check(t.Context()); err != nil {
		t.Error(err)
	}
	f := r.start()
	r.Await(3)
	r.Stop(f)
	if len(r.s.Submitted()) != 1 {
		t.Errorf("submitted %d times", len(r.s.Submitted()))
	}
}

// SubmitJob has no client token: repeated after a lost answer, it would submit a second array,
// whose ID is unknown.
func TestLostSubmitAnswerLeavesNoJob(t *testing.T) {
	for name, e := range map[string]*batchtest.Error{"the connection breaks": batchtest.Broken,
		"a server's error": {Status: 500, Code: "ServerException", Message: "internal"}} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, batchtest.Settings{}, 2, "exec sleep 600")
			r.s.Set(func(set *batchtest.Settings) {
				set.After = func(operation string) *batchtest.Error {
					if operation == "SubmitJob" {
						return e
					}
					return nil
				}
			})
			_, err := r.kind.Start(t.Context(), r.Options)
			workertest.WantError(t, err, "submitting a job of 2 workers")
			if len(r.s.Submitted()) != 1 || len(r.s.Left()) > 0 {
				t.Errorf("%v are left of %d", r.s.Left(), len(r.s.Submitted()))
			}
		})
	}
}

func TestFailedStartLeavesNoJobs(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 4, "exec sleep 600")
	r.kind.maxArray = 2
	r.kind.o.Definition, r.kind.o.Image = "", "image"
	var n atomic.Int32
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for _, c := range []struct {
		name string
		do   func() *batchtest.Error
		want string
	}{
		{"denied", func() *batchtest.Error { return batchtest.Denied }, "is not authorized to perform"},
		{"the run ends", func() *batchtest.Error { cancel(errors.New("the user is impatient")); return nil },
			"not all workers submitted: the user is impatient"},
	} {
		n.Store(0)
		r.s.Set(func(set *batchtest.Settings) {
			set.Before = func(operation string) *batchtest.Error {
				if operation == "SubmitJob" && n.Add(1) == 2 {
					return c.do()
				}
				return nil
			}
		})
		_, err := r.kind.Start(ctx, r.Options)
		workertest.WantError(t, err, c.want)
		if left := append(r.s.Left(), r.s.Definitions()...); len(left) > 0 {
			t.Errorf("%s: %v are left", c.name, left)
		}
	}
}

func TestStopEndsRunningAndWaitingJobs(t *testing.T) {
	for name, set := range map[string]batchtest.Settings{"running": {}, "some wait": {Running: 3},
		"busy": {StopTimeout: 50}} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, set, 7, `trap "" TERM; sleep 600; sleep 600`)
			r.kind.maxArray = 3
			f := r.start()
			if name == "busy" {
				var n atomic.Int32
				r.s.Set(func(set *batchtest.Settings) {
					set.Before = func(string) *batchtest.Error {
						if n.Add(1) <= 30 {
							return &batchtest.Error{Status: 503, Code: "ServerException", Message: "unavailable"}
						}
						return nil
					}
				})
			}
			r.Stop(f)
			if left := r.s.Left(); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			r.Stop(f)
			if exited := r.Exits(); len(exited) > 0 {
				t.Errorf("OnExit was called for workers that Stop ended: %v", exited)
			}
		})
	}
}

func TestStopTimeout(t *testing.T) {
	over := func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("five seconds are over"))
		return ctx
	}
	t.Run("AWS has accepted to end them", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{StopTimeout: 100}, 2, `trap "" TERM; while :; do sleep 0.01; done`)
		r.kind.o.Definition, r.kind.o.Image = "", "image"
		f := r.start()
		if err := f.Stop(over(t)); err != nil {
			t.Error(err)
		}
		workertest.Eventually(t, "they stay", func() bool { return len(r.s.Left()) == 0 })
		if left := r.s.Definitions(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
	t.Run("AWS does not answer", func(t *testing.T) {
		r := newRun(t, batchtest.Settings{}, 2, "exec sleep 600")
		f := r.start()
		r.s.Set(func(set *batchtest.Settings) {
			set.Before = func(string) *batchtest.Error { return batchtest.Denied }
		})
		err := f.Stop(over(t))
		workertest.WantError(t, err, "five seconds are over", "not authorized")
		workertest.WantCommands(t, err, "aws batch terminate-job --region eu-test-1", "--job-id 00000001")
		r.s.Set(func(set *batchtest.Settings) { set.Before = nil })
	})
	t.Run("AWS has accepted, and does nothing", func(t *testing.T) {
		end := filepath.Join(t.TempDir(), "end")
		r := newRun(t, batchtest.Settings{}, 2, "while [ ! -e "+end+" ]; do sleep 0.01; done")
		f := r.start()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r.s.Set(func(set *batchtest.Settings) {
			set.Deaf = true
			set.Before = func(operation string) *batchtest.Error {
				if operation == "DescribeJobs" {
					stop()
				}
				return nil
			}
		})
		if err := f.Stop(ctx); err != nil {
			t.Error(err)
		}
		r.s.Set(func(set *batchtest.Settings) { set.Deaf, set.Before = false, nil })
		if err := os.WriteFile(end, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTemporaryFailuresEndNoWorker(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 2, "exec sleep 600")
	var log bytes.Buffer
	r.Options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f := r.start()
	var n atomic.Int32
	r.s.Set(func(set *batchtest.Settings) {
		set.Before = func(operation string) *batchtest.Error {
			if operation == "DescribeJobs" && n.Add(1) <= 3 {
				return batchtest.Denied
			}
			return nil
		}
	})
	workertest.Eventually(t, "they are not asked for any more", func() bool { return n.Load() > 5 })
	if exited := r.Exits(); len(exited) > 0 {
		t.Errorf("exited: %v", exited)
	}
	r.Stop(f)
	if n := strings.Count(log.String(), "not authorized"); n != 1 {
		t.Errorf("said %d times: %s", n, &log)
	}
}

// A run whose workers never join, and whose jobs can't be asked for, waited for ever.
func TestGiveUpWhenJobsAreUnknown(t *testing.T) {
	deny := func(operation string) *batchtest.Error {
		if operation == "DescribeJobs" {
			return batchtest.Denied
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		set    func(*batchtest.Settings)
		reason string // "": the run waits
	}{
		{"denied", func(s *batchtest.Settings) { s.Before = deny }, "not authorized"},
		{"an answer without the jobs", func(s *batchtest.Settings) { s.NoJobs = true }, "DescribeJobs answered without"},
		{"jobs that are known, and wait", func(*batchtest.Settings) {}, ""},
	} {
		giveUp := c.reason != ""
		r := newRun(t, batchtest.Settings{}, 2, "exec sleep 600")
		r.s.Set(c.set)
		k, err := coordinator.New(coordinator.Options{Blocks: 1, Workers: 2,
			Accept: func(context.Context, *coordinator.Result) error { return nil },
			Times:  protocol.Times{QueryFailureTimeout: 50 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		at, err := k.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if !giveUp {
			time.AfterFunc(2*time.Second, cancel)
		}
		err = coordinator.Run(ctx, k, r.kind,
			coordinator.RunOptions{Workers: 2, Command: r.Options.Command, Run: "test-1", Endpoint: at, StopWithin: time.Second})
		cancel()
		var lost *worker.LostError
		if errors.As(err, &lost) != giveUp {
			t.Errorf("%s: %v", c.name, err)
		}
		if giveUp {
			workertest.WantError(t, err, "no worker has joined the run",
				"the jobs of 2 workers that have not joined have been unknown for 50ms", c.reason)
		}
		r.s.Set(func(set *batchtest.Settings) { set.Before, set.NoJobs = nil, false })
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

// RIOS refuses one job per block on AWS Batch, too.
func TestRIOSSingleBlockJobsOnAWSBatch(t *testing.T) {
	if New(nil).Capabilities().OneBlockPerJob {
		t.Error("workers can be started for one block each")
	}
}
