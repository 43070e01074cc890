package rundir

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// noDirectories fails the test if a directory of a run is left in base.
func noDirectories(t *testing.T, base string) {
	t.Helper()
	if list, err := filepath.Glob(filepath.Join(base, Prefix+"*")); err != nil || len(list) > 0 {
		t.Errorf("%q is left, %v", list, err)
	}
}

func TestSweepDirectoryOfKilledRun(t *testing.T) {
	base := t.TempDir()
	mine, err := Make(base)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := Make(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed.Path, "log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	killed.lock.Close() // as the kernel does
	next, err := Make(base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(killed.Path); !os.IsNotExist(err) {
		t.Errorf("the directory of the killed run: %v", err)
	}
	for _, f := range []*Dir{mine, next} {
		st, err := os.Stat(f.Path)
		if err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", f.Path, st, err)
		}
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	noDirectories(t, base)
}

func TestConcurrentRunDirectories(t *testing.T) {
	base := t.TempDir()
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range 100 {
				f, err := Make(base)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(f.Path, Lockfile)); err != nil {
					t.Errorf("removed while it was in use: %v", err)
				}
				if err := f.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	noDirectories(t, base)
}
