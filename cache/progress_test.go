//go:build unix

package cache

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestProgress(t *testing.T) {
	var reported []int64
	c, err := Create(100, &Options{Dir: t.TempDir(), Progress: func(n int64) { reported = append(reported, n) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range int64(10) {
		if _, err := c.Put(7*i, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	rising := func(what string, last int64) {
		t.Helper()
		if len(reported) < 10 || !slices.IsSorted(reported) || reported[len(reported)-1] != last {
			t.Errorf("%s reported %v, the last should be %d", what, reported, last)
		}
		reported = nil
	}
	r, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rising("Check", r.LiveBytes)
	if _, err := c.ExportPFIO(t.Context(), filepath.Join(t.TempDir(), "x.pfio"), false); err != nil {
		t.Fatal(err)
	}
	rising("ExportPFIO", r.LiveBytes+16*100) // the index is most of the work where most slots are empty
	if _, err := c.Preserve(t.Context(), filepath.Join(t.TempDir(), "x"), false); err != nil {
		t.Fatal(err)
	}
	rising("Preserve", r.LiveBytes)
}
