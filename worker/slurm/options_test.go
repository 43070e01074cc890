package slurm

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRefusedSbatchOptions(t *testing.T) {
	for _, w := range []string{"--help", "-h", "--usage", "--version", "-V", "--test-only", "--test", "--wrap=true",
		"--wait", "--wai", "-W"} {
		if refused(w) == "" {
			t.Errorf("%s is not refused", w)
		}
	}
	for _, w := range []string{"-H", "--wait-all-nodes=1", "--hint=nomultithread", "--array=0-3", "script.sh", "-", "=x"} {
		if why := refused(w); why != "" {
			t.Errorf("%s is refused: %s", w, why)
		}
	}
}

func TestAllWrongFieldsAreNamed(t *testing.T) {
	o := &Options{
		Directives: []string{"-p short --test-only", "-p a\n-p b"}, CPUs: -1, MaxArray: -2, Throttle: -3, Init: []string{"a\x00"},
		Prefix: []string{"b\n"}, Suffix: []string{"c\r"},
		Dir: filepath.Join(t.TempDir(), "none"),
	}
	err := New(o).Check(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--test-only", `"-p a\n-p b"`, "CPUs is -1", "MaxArray is -2", "Throttle is -3", "Init", "Prefix",
		"Suffix", "none"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}
