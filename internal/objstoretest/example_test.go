package objstoretest_test

import (
	"os"
	"path/filepath"
	"testing"

	"leat/internal/objstoretest"
	"leat/objstore"
)

// ExampleRun is the test of a Source that is a directory. Each part of Run opens an empty store.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestDirectory(t *testing.T)
		objstoretest.Run(t, func(t *testing.T) objstoretest.Store {
			dir := t.TempDir()
			source, err := objstore.Open(t.Context(), "file://"+dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { source.Close() })
			put := func(t *testing.T, name string, data []byte) {
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				next := filepath.Join(t.TempDir(), "next")
				if err := os.WriteFile(next, data, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(next, path); err != nil {
					t.Fatal(err)
				}
			}
			return objstoretest.Store{Source: source, Put: put, Versions: true}
		})
	}
}
