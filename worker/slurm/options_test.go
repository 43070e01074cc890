package slurm

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRefusedSbatchOptions(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // in the error; "": there is none
	}{
		{"", ""},
		{"-p short -t 1:00:00 --mem=4G --account me", ""},
		{"-pshort -t1:00:00 -N1 -c 4 --exclusive --hold -H -v", ""},
		{"--wait-all-nodes=1 --export-x", ""},
		{"--array=0-3", "--array"},
		{"--array 0-3", "--array"},
		{"--arr=0-3", "--array"},
		{"-a 0-3", "-a (--array)"},
		{"-a0-3", "-a (--array)"},
		{"-o log", "-o (--output)"},
		{"--output=log", "--output"},
		{"-p short --out log", "--output"},
		{"-e log", "-e (--error)"},
		{"--export=NONE", "--export"},
		{"--export-file=f", "--export-file"},
		{"--wrap=true", "--wrap"},
		{"--parsable", "--parsable"},
		{"-J mine", "--job-name"},
		{"--job-name=mine", "--job-name"},
		{"-W", "--wait"},
		{"--wait", "--wait"},
		{"--requeue", "--requeue"},
		{"--test-only", "--test-only"},
		{"--help", "--help"},
		{"script.sh", "script.sh"},
		{"-p short script.sh", "script.sh"},
		{"--exclusive script.sh", "script.sh"},
		{"-H script.sh", "script.sh"},
		{"--mem=4G script.sh", "script.sh"},
		{"-p short -- script.sh", "--"},
		{"-HW", "-HW"},
		{"-", `"-"`},
		{"--mem=4\x00G", "zero byte"},
		{"-N", "-N of sbatch has no value"},
		{"-p short -N", "-N of sbatch has no value"},
		{"-N -p short", "-N of sbatch has no value"},
		{"--partition", "--partition of sbatch has no value"},
		{"--part", "--part of sbatch has no value"},
		{"--comment --exclusive", "--comment of sbatch has no value"},
		{"--nice --exclusive --no-kill", ""},
		{"--partition short --comment=-x --mem 0", ""},
		{"--some-new-flag", ""},
	} {
		err := checkExtra(strings.Fields(c.args), false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	for _, a := range []string{"-c", "-c4", "--cpus-per-task=4", "--cpus"} {
		if err := checkExtra([]string{a}, true); err == nil || !strings.Contains(err.Error(), "Options.CPUs is set") {
			t.Errorf("%q with CPUs: %v", a, err)
		}
	}
	err := checkExtra([]string{"--array=1", "--wrap=x"}, false)
	if err == nil || !strings.Contains(err.Error(), "--array") || !strings.Contains(err.Error(), "--wrap") {
		t.Errorf("not all wrong options are named: %v", err)
	}
}

func TestAllWrongFieldsAreNamed(t *testing.T) {
	o := &Options{
		Extra: []string{"--array=1"}, CPUs: -1, MaxArray: -2, Throttle: -3, Init: []string{"a\x00"},
		Prefix: []string{"b\n"}, Suffix: []string{"c\r"},
		Folder: filepath.Join(t.TempDir(), "none"),
	}
	err := New(o).Check(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--array", "CPUs is -1", "MaxArray is -2", "Throttle is -3", "Init", "Prefix",
		"Suffix", "none"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}
