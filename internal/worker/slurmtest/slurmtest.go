// Package slurmtest runs a real one-node Slurm for tests, with the programs of Debian's packages
// slurm-wlm and munge: slurmctld, slurmd and munged on loopback, as root, without control groups,
// and with all files in a temporary directory.
//
//	c := slurmtest.Start(t)
//	c.Setenv(t)                  // sbatch, squeue and scancel now use this cluster
//
// The daemons, all processes of jobs, and the directory are removed after the test, even if it is
// killed.
package slurmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CPUs is the number of CPUs in the node's configuration, whatever the machine has.
const CPUs = 8

// Partitions: Default has no limits, jobs of Short may run for one minute, and jobs of Down stay
// pending.
const (
	Default = "leat"
	Short   = "short"
	Down    = "down"
)

// Cluster is a running Slurm.
type Cluster struct {
	// Env selects the cluster for Slurm's programs: NAME=VALUE each.
	Env []string
	// Directory contains the configuration, the state and the logs.
	Dir string

	controller, node int // ports
}

// Setenv sets Env for the test and the processes it starts. It can't be used in parallel tests.
func (c *Cluster) Setenv(t testing.TB) {
	t.Helper()
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
}

// Run runs one of Slurm's programs for this cluster and fails the test if the program fails.
func (c *Cluster) Run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := c.command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Jobs returns the IDs, names and states of all jobs and tasks that have not ended, one per line;
// "": none.
func (c *Cluster) Jobs(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(c.Run(t, "squeue", "--noheader", "--array", "--format=%i %j %T"))
}

func (c *Cluster) command(program string, args ...string) *exec.Cmd {
	e := exec.Command(program, args...)
	e.Env = append(os.Environ(), c.Env...)
	return e
}

// needed lists the programs and the Debian package of each.
var needed = []struct{ program, pkg string }{
	{"munged", "munge"}, {"slurmctld", "slurmctld"}, {"slurmd", "slurmd"}, {"scontrol", "slurm-client"},
	{"setpriv", "util-linux"},
}

// find returns the path of a program; daemons may not be in PATH.
func find(program string) (string, error) {
	if p, err := exec.LookPath(program); err == nil {
		return p, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return p, nil
		}
	}
	return exec.LookPath(program)
}

// skip skips the test with -short, and if no cluster can run here.
func skip(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs a Slurm cluster")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: Slurm's daemons run jobs for other users")
	}
	for _, n := range needed {
		if _, err := find(n.program); err != nil {
			t.Skipf("needs %s (Debian: package %s; scripts/test-deps installs it)", n.program, n.pkg)
		}
	}
}
