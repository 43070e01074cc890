package pbs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/worker/pbs/pbstest"
)

func TestCheck(t *testing.T) {
	t.Run("all is well", func(t *testing.T) {
		for _, set := range []pbstest.Settings{{}, {Old: true}, {NoHistory: true}} {
			pbstest.New(t, set)
			if err := New(&Options{Extra: []string{"-q", "short", "-lselect=1:ncpus=4",
				"-V"}}).Check(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("no qsub", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		wantError(t, New(nil).Check(t.Context()), "qsub: not found in PATH")
	})
	t.Run("no qdel", func(t *testing.T) {
		pbstest.New(t, pbstest.Settings{})
		bin, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
		t.Setenv("PATH", bin)
		if err := os.Remove(filepath.Join(bin, "qdel")); err != nil {
			t.Fatal(err)
		}
		wantError(t, New(nil).Check(t.Context()), "qdel: not found in PATH")
	})
	for _, c := range []struct {
		name   string
		answer pbstest.Answer
		want   string
	}{
		{"a server that is down", pbstest.Answer{Stderr: "Connection refused\nqstat: cannot connect to server pbs (errno=15010)\n", Code: 1}, "the server does not answer: qstat: Connection refused"},
		{"Torque", pbstest.Answer{Stderr: "qstat: invalid option -- 'F'\nusage: \nqstat [-f [-1]]\n", Code: 2},
			"Torque and Grid Engine do not work"},
		{"Grid Engine", pbstest.Answer{Stdout: "queuename                      qtype resv/used/tot.\n"},
			"OpenPBS or PBS Professional 14 or newer is needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pbstest.New(t, pbstest.Settings{Before: func(string, []string) *pbstest.Answer { return &c.answer }})
			wantError(t, New(nil).Check(t.Context()), c.want)
		})
	}
}

func TestRefusedOptions(t *testing.T) {
	pbstest.New(t, pbstest.Settings{})
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Extra: []string{"-J", "0-3"}}, []string{"-J", "the number of workers"}},
		{Options{Extra: []string{"-Nmine"}}, []string{"-N", "named after the run"}},
		{Options{Extra: []string{"-o", "x", "-e", "y", "-joe", "-koed", "-R", "oe"}},
			[]string{"-o of", "-e of", "-j of", "-k of", "-R of"}},
		{Options{Extra: []string{"-S", "/bin/zsh"}}, []string{"-S", "Prefix"}},
		{Options{Extra: []string{"-I"}}, []string{"-I", "not interactive"}},
		{Options{Extra: []string{"-hz"}}, []string{"-h of", "-z of"}},
		{Options{Extra: []string{"-C", "#X"}}, []string{"-C", "directives"}},
		{Options{Extra: []string{"-r", "n"}}, []string{"-r", "rerunnable"}},
		{Options{Extra: []string{"-fVzq", "short"}}, []string{"-z of"}},
		{Options{Extra: []string{"-W", "block=true"}}, []string{"-W block"}},
		{Options{Extra: []string{"-Wdepend=afterok:12,block=true"}}, []string{"-W block"}},
		{Options{Extra: []string{"-v", "A=1,LEAT_WORKER_NAME=x"}}, []string{"-v", "LEAT_WORKER"}},
		{Options{Extra: []string{"-v", "A=1"}, InsecureSecret: true}, []string{"-v", "InsecureSecret", "Init"}},
		{Options{Extra: []string{"-lwalltime=1:00,select=1:ncpus=2"}, CPUs: 2},
			[]string{"-l walltime", "Options.CPUs is set"}},
		{Options{Extra: []string{"-q"}}, []string{"-q of qsub has no value"}},
		{Options{Extra: []string{"job.sh"}}, []string{`"job.sh"`, "script"}},
		{Options{Extra: []string{"--", "/bin/true"}}, []string{`"--"`}},
		{Options{Extra: []string{"-"}}, []string{`"-"`}},
		{Options{Extra: []string{"--version"}}, []string{"--version"}},
		{Options{Extra: []string{"-q", "a\x00b"}, MaxArray: -1, Init: []string{"\x00"}, Prefix: []string{"a\nb"}},
			[]string{"MaxArray is -1", "zero byte", "line break"}},
	} {
		t.Run(strings.Join(c.o.Extra, " "), func(t *testing.T) {
			wantError(t, New(&c.o).Check(t.Context()), c.want...)
			r := newRun(t, &c.o, 1, "exit 0")
			_, err := r.kind.Start(t.Context(), r.o)
			wantError(t, err, c.want...)
		})
	}
	for _, q := range [][]string{
		nil, {"-q", "-z"}, {"-l", "select=1:ncpus=4,walltime=1:00:00"}, {"-lselect=1", "-V", "-Wgroup_list=x"},
		{"-v", "A=1"}, {"-W", "depend=afterok:block"},
		{"-A", "--"}, {"-p10"}, {"-m", "n"},
	} {
		if err := (&Options{Extra: q}).validate(); err != nil {
			t.Errorf("%q: %v", q, err)
		}
	}
}

func TestRefusedFoldersAndStarts(t *testing.T) {
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
	for _, c := range []struct{ folder, want string }{
		{mk("open", 0o755), "expected 0700"},
		{mk("a:b", 0o700), "colon"},
		{"/no/such/folder", "no such file"},
		{file, "expected the absolute path"},
		{".", "absolute"},
	} {
		r := newRun(t, nil, 1, "exit 0")
		r.o.Folder = c.folder
		_, err := r.kind.Start(t.Context(), r.o)
		wantError(t, err, "shared folder", c.want)
	}
	r := newRun(t, nil, 0, "exit 0")
	r.o.RunID, r.o.Command, r.o.Endpoint.Addresses, r.o.Endpoint.Pin, r.o.Endpoint.Token = "", []string{"true"}, nil, "", ""
	_, err := r.kind.Start(t.Context(), r.o)
	wantError(t, err, "Workers is 0", "absolute path", "RunID is empty", "Endpoint is empty")
	if len(s.Submitted()) > 0 {
		t.Error("something was submitted")
	}
}
