//go:build !linux

package slurmtest

import "testing"

// Start skips the test: Slurm runs on Linux only.
func Start(t testing.TB) *Cluster {
	t.Helper()
	t.Skip("needs Linux, on which Slurm's daemons run")
	return nil
}
