//go:build linux

package stage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestPathIsNeverReused renames the directory of a pool that is in use; another one
// begins anew in its place.
func TestPathIsNeverReused(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"stage", ""} {
		for _, size := range []int64{5000, 3 * mib} {
			parent := t.TempDir()
			dir := filepath.Join(parent, "dir")
			must(t, os.Mkdir(dir, 0o700))
			s := small("moved", size)
			p := pool(t, dir, Options{})
			l := p.Prefetch(s, "mine")
			r := ok(l.Open(t.Context()))(t)
			before := ok(r.Path())(t)
			must(t, os.Rename(filepath.Join(dir, level), filepath.Join(parent, "old")))
			if level == "" {
				must(t, os.Mkdir(dir, 0o700))
			}
			other := pool(t, dir, Options{})
			for i := range 3 {
				l := other.PrefetchFile(s, fmt.Sprint("other ", i))
				r := ok(l.Open(t.Context()))(t)
				defer r.Close()
			}
			want := content("mine", 0, size)
			after := ok(r.Path())(t)
			if b := ok(os.ReadFile(after))(t); !bytes.Equal(b, want) {
				t.Errorf("%d bytes: the path of a renamed directory leads to another object", size)
			}
			if b, err := os.ReadFile(before); err == nil && !bytes.Equal(b, want) {
				t.Errorf("%d bytes: the path from before leads to another object", size)
			}
			must(t, os.RemoveAll(filepath.Join(parent, "old")))
			if path, err := r.Path(); err == nil {
				t.Errorf("a removed file has the path %s", path)
			}
			must(t, r.Close())
		}
	}
}
