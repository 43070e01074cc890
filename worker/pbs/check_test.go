package pbs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/worker/pbstest"
	"leat/internal/worker/workertest"
)

func TestCheck(t *testing.T) {
	t.Run("all is well", func(t *testing.T) {
		for _, set := range []pbstest.Settings{{}, {Old: true}, {NoHistory: true}} {
			pbstest.New(t, set)
			if err := New(&Options{Directives: []string{"-q short -lselect=1:ncpus=4 -V"}}).Check(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("no qsub", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		workertest.WantError(t, New(nil).Check(t.Context()), "qsub: not found in PATH")
	})
	t.Run("no qdel", func(t *testing.T) {
		pbstest.New(t, pbstest.Settings{})
		bin, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
		t.Setenv("PATH", bin)
		if err := os.Remove(filepath.Join(bin, "qdel")); err != nil {
			t.Fatal(err)
		}
		workertest.WantError(t, New(nil).Check(t.Context()), "qdel: not found in PATH")
	})
	for _, c := range []struct {
		name   string
		answer pbstest.Answer
		want   string
	}{
		{"a server that is down", pbstest.Answer{Stderr: "Connection refused\nqstat: cannot connect to server pbs (errno=15010)\n", Code: 1}, "the server does not answer: qstat: Connection refused"},
		{"Torque", pbstest.Answer{Stderr: "qstat: invalid option -- 'F'\nusage: \nqstat [-f [-1]]\n", Code: 2},
			"this qstat has no -F json"},
		{"Grid Engine", pbstest.Answer{Stdout: "queuename                      qtype resv/used/tot.\n"},
			"printed no server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pbstest.New(t, pbstest.Settings{Before: func(string, []string) *pbstest.Answer { return &c.answer }})
			workertest.WantError(t, New(nil).Check(t.Context()), c.want)
		})
	}
}

func TestRefusedOptions(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Directives: []string{"-I -z"}}, []string{"Directives has -I", "Directives has -z"}},
		{Options{Directives: []string{"-W block=true"}}, []string{"block=true"}},
		{Options{Directives: []string{"-Wdepend=afterok:12,block=true"}}, []string{"block=true"}},
		{Options{Directives: []string{"-v A=1"}, InsecureSecret: true}, []string{"-v", "InsecureSecret"}},
		{Options{Directives: []string{"-q short\n-h", "-A a\r", "-A a\x00"}, MaxArray: -1, Init: []string{"\x00"},
			Prefix: []string{"a\nb"}, Suffix: []string{"c\nd"}},
			[]string{`Directives has "-q short\n-h"`, `"-A a\r"`, `"-A a\x00"`, "MaxArray is -1", "Init has", "Prefix has",
				"Suffix has"}},
	} {
		t.Run(strings.Join(c.o.Directives, " "), func(t *testing.T) {
			workertest.WantError(t, New(&c.o).Check(t.Context()), c.want...)
			r := newRun(t, &c.o, 1, "exit 0")
			_, err := r.kind.Start(t.Context(), r.Options)
			workertest.WantError(t, err, c.want...)
		})
	}
	if len(s.Submitted()) > 0 {
		t.Error("something was submitted")
	}
}

func TestLauncherOptionsWinOverDirectives(t *testing.T) {
	t.Setenv("PBS_DPREFIX", "#OTHER")
	for _, n := range []int{1, 2} {
		s := pbstest.New(t, pbstest.Settings{})
		r := newRun(t, &Options{CPUs: 3, Directives: []string{
			`-q short -A "two words" -l select=9:ncpus=9,walltime=60`,
			"-N mine -o /none -j n -k oe -S /none -C #X -v 'B=it is',C=a\\ b -r " + map[int]string{1: "y", 2: "n"}[n],
		}, Init: []string{"#PBS -q long"}}, n, `echo "$B, $C"`)
		r.start()
		for name, e := range r.Await(n) {
			if e.Err != nil || e.Log != "it is, a b" {
				t.Errorf("%s: %v, log %q", name, e.Err, e.Log)
			}
		}
		array := map[int]string{1: "", 2: "0-1"}[n]
		for option, want := range map[byte]string{'q': "short", 'A': "two words", 'N': "leat-test-1", 'J': array,
			'l': "select=1:ncpus=3,walltime=60", 'S': "/bin/sh", 'j': "oe"} {
			if got := s.Option(100, option); got != want {
				t.Errorf("%d workers: -%c is %q, expected %q", n, option, got, want)
			}
		}
	}
}

func TestInvalidDirectivesAreRefusedByQsub(t *testing.T) {
	for _, d := range []string{"job.sh", "-q", "-q short job.sh", "-- /bin/true", "--version", `-A "a`} {
		s := pbstest.New(t, pbstest.Settings{})
		r := newRun(t, &Options{Directives: []string{d}}, 1, "exit 0")
		_, err := r.kind.Start(t.Context(), r.Options)
		workertest.WantError(t, err, "submitting a job of 1 workers: qsub: ")
		if len(s.Submitted()) > 0 || len(s.Left()) > 0 {
			t.Errorf("%s: something was submitted", d)
		}
	}
}

func TestRefusedDirsAndStarts(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	mk := func(name string, mode os.FileMode) string {
		d := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(d, mode); err != nil {
			t.Fatal(err)
		}
		return d
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, want string }{
		{mk("open", 0o755), "expected 0700"},
		{mk("a:b", 0o700), "colon"},
		{"/no/such/folder", "no such file"},
		{file, "expected the absolute path"},
		{".", "absolute"},
	} {
		r := newRun(t, nil, 1, "exit 0")
		r.Options.Dir = c.dir
		_, err := r.kind.Start(t.Context(), r.Options)
		workertest.WantError(t, err, "shared directory", c.want)
	}
	r := newRun(t, nil, 0, "exit 0")
	r.Options.RunID, r.Options.Command, r.Options.Endpoint.Addresses, r.Options.Endpoint.Pin, r.Options.Endpoint.Token = "", []string{"true"}, nil, "", ""
	_, err := r.kind.Start(t.Context(), r.Options)
	workertest.WantError(t, err, "Workers is 0", "absolute path", `RunID is ""`, "Endpoint is empty")
	if len(s.Submitted()) > 0 {
		t.Error("something was submitted")
	}
}
