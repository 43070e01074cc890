//go:build !race && !nocloud

// Not with the race detector: no other test of a package in make race needs the clients of clouds.

package stores

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/objstore"
	"leat/objstore/cloud"
)

func TestGlobMatchesWholeNames(t *testing.T) {
	ctx := context.Background()
	s := New(&Options{Store: objstore.Options{Drivers: cloud.Drivers()}})
	defer s.Close()
	for _, name := range []string{"y/t10.tif", "y/t2.tif", "y/t1.tif.aux.xml", "y/a/t3.tif", "y/", "z/t4.tif"} {
		if err := s.Upload(ctx, "mem://glob/"+name, strings.NewReader("x"), 1, objstore.UploadOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]string{
		"y/*.tif":   {"y/t2.tif", "y/t10.tif"},
		"y/*":       {"y/t1.tif.aux.xml", "y/t2.tif", "y/t10.tif"},
		"*/*.tif":   {"y/t2.tif", "y/t10.tif", "z/t4.tif"},
		"y/*/*":     {"y/a/t3.tif"},
		"y/t[2-9]*": {"y/t2.tif"},
		"x*":        nil,
	} {
		got, err := s.Glob(ctx, "mem://glob/"+pattern)
		for i := range want {
			want[i] = "mem://glob/" + want[i]
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, expected %q", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{"mem://glob/[", "mem://glo*/a", "mem://glob"} {
		if got, err := s.Glob(ctx, pattern); err == nil {
			t.Errorf("%s: %q, expected an error", pattern, got)
		}
	}
}

func TestReadFileIsBounded(t *testing.T) {
	s := New(nil)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(path, []byte("12345"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, "file://" + path} {
		if text, err := s.ReadFile(context.Background(), name, 5); err != nil || string(text) != "12345" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if _, err := s.ReadFile(context.Background(), name, 4); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, expected that it is too large", name, err)
		}
	}
}
