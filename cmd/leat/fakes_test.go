package main

import (
	"os"
	"path/filepath"
	"testing"
)

// sharedData returns the path of a real raster, or skips the test.
func sharedData(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	path := filepath.Join(dir, "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no test data: ../shared/data/%s is not there", name)
	}
	return path
}
