//go:build !linux

package slurmtest

import "testing"

// Start skips the test: Slurm is for Linux.
func Start(t testing.TB) *Cluster {
	t.Helper()
	t.Skip("needs Linux: Slurm's daemons are for that")
	return nil
}
