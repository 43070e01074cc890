//go:build nocloud

package main

import (
	"strings"
	"testing"
)

const clouds = false

// In place of all tests of object stores and AWS Batch, whose files need clouds.
func TestRemoteScripts(t *testing.T) {
	t.Skip("tag nocloud: tests that need clients of object stores (make test-rest runs them)")
}

func TestErrorWithoutClients(t *testing.T) {
	for _, args := range [][]string{
		{"info", "s3://bucket/a.tif"},
		{"apply", "-i", "a=gs://bucket/a.tif", "-o", "x=x.tif", "-e", "a"},
		{"stage", "get", "azblob://container/a.tif"},
	} {
		said := leat(t, exitFailed, t.TempDir(), args...)
		if !strings.Contains(said, "this program was built without clients of object stores (tag nocloud)\n") {
			t.Errorf("%q: %s", args, said)
		}
	}
}
