//go:build linux

package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/internal/proctest"
)

// children are what other processes of the tests do.
var children = map[string]proctest.Func{
	"memory":     memoryChild,
	"same files": sameFilesChild,
	"left":       leftChild,
	"eight":      eightChild,
	"stuck":      stuckChild,
	"crash":      crashChild,
	"points":     pointsChild,
	"hold":       holdChild,
	"full disk":  fullDiskChild,
}

// together starts n children that begin at the same moment, see ready, and returns what each
// printed. args come first in each one's arguments.
func together(t testing.TB, dir string, n int, name string, args ...string) (outputs []string) {
	t.Helper()
	var all []*proctest.Command
	for i := range n {
		all = append(all, proctest.New(name, append(args, dir, fmt.Sprint(i))...).Start(t))
	}
	soon(t, "all children being ready", func() bool {
		names, err := filepath.Glob(filepath.Join(dir, "ready-*"))
		return err == nil && len(names) == n
	})
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	for i, c := range all {
		killed, out, err := c.Wait()
		if err != nil || killed {
			t.Errorf("child %d: %v\n%s", i, err, out)
		}
		outputs = append(outputs, strings.TrimSpace(out))
	}
	return outputs
}

// ready reports that a child of together is ready, and waits until all are. Its directory and
// number are the last arguments.
func ready(args []string) error {
	dir, number := args[len(args)-2], args[len(args)-1]
	if err := os.WriteFile(filepath.Join(dir, "ready-"+number), nil, 0o600); err != nil {
		return err
	}
	return waitForFile(filepath.Join(dir, "go"))
}

func waitForFile(path string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, err := os.Stat(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no %s after a minute", path)
		}
	}
}
