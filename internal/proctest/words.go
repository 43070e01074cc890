package proctest

import (
	"errors"
	"os"
	"testing"
)

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// OK returns a function that ends the test on an error, and otherwise returns the value:
// OK(os.Open(name))(t).
func OK[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return v
	}
}

// WantErr checks that an error is, or wraps, the one that is wanted.
func WantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, expected %v", err, want)
	}
}

// MemoryDir is t.TempDir on /dev/shm, if that exists, so that tests need no disk.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "leat-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { Must(t, os.RemoveAll(dir)) })
	return dir
}
