// Package slurmtest runs a real Slurm of one node for tests, from the programs of Debian's packages slurm-wlm and munge: slurmctld, slurmd
// and munged on loopback, as root, without control groups, with all they keep in a temporary folder.
//
//	c := slurmtest.Start(t)
//	c.Setenv(t)                  // sbatch, squeue and scancel mean this cluster from here on
//
// The daemons, all that jobs start, and the folder go with the test, even when it is killed.
package slurmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CPUs are those the node claims to have, on whatever machine: as many workers of one CPU run at once.
const CPUs = 8

// Partitions: the default one has no limits; jobs of Short may ask for one minute; jobs of Down stay pending.
const (
	Default = "leat"
	Short   = "short"
	Down    = "down"
)

// Cluster is a running Slurm.
type Cluster struct {
	// Env names the cluster to Slurm's programs: NAME=VALUE each.
	Env []string
	// Folder has the configuration, the state and the logs.
	Folder string

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

// Run runs one of Slurm's programs for this cluster, and fails the test when that fails.
func (c *Cluster) Run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := c.command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Jobs are the ids of all jobs and tasks that have not ended, one a line with their states; "": there is none.
func (c *Cluster) Jobs(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(c.Run(t, "squeue", "--noheader", "--array", "--format=%i %j %T"))
}

func (c *Cluster) command(program string, args ...string) *exec.Cmd {
	e := exec.Command(program, args...)
	e.Env = append(os.Environ(), c.Env...)
	return e
}

// needed are the programs, and the package of Debian each is in.
var needed = []struct{ program, pkg string }{
	{"munged", "munge"}, {"slurmctld", "slurmctld"}, {"slurmd", "slurmd"}, {"scontrol", "slurm-client"}, {"setpriv", "util-linux"},
}

// find returns the path of a program; daemons are not in everybody's PATH.
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

// skip leaves the test out where no cluster can be.
func skip(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: Slurm's daemons run jobs for other users")
	}
	for _, n := range needed {
		if _, err := find(n.program); err != nil {
			t.Skipf("needs %s (Debian: package %s; scripts/test-deps installs it)", n.program, n.pkg)
		}
	}
}
