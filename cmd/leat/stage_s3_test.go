//go:build !nocloud

package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func TestPrefetchPrefixSkipsDirs(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"train/", "train/a b.txt", "train/deep/c+%20.txt", "other.txt"} {
		if _, err := backend.PutObject("bucket", name, map[string]string{}, strings.NewReader(name), int64(len(name)),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	store := []string{"--endpoint", server.URL, "--anonymous", "--dir", dir}
	said := leat(t, exitDone, dir, append([]string{"stage", "warm", "s3://bucket/train/"}, store...)...)
	if want := "2 objects: 2 copied (33 bytes), 0 there already, 0 failed\n"; said != want {
		t.Errorf("%q, expected %q", said, want)
	}
	if said := leat(t, exitDone, dir, append([]string{"stage", "get", "-o", "-", "s3://bucket/train/deep/c+%20.txt",
		"s3://bucket/train/a b.txt"}, store...)...); said != "train/deep/c+%20.txttrain/a b.txt" {
		t.Errorf("%q", said)
	}
	said = leat(t, exitFailed, dir, append([]string{"stage", "warm", "s3://nosuch/", "s3://bucket/nosuch"},
		store...)...)
	for _, want := range []string{"leat: listing s3://nosuch/", "hint: check the bucket's name",
		"leat: reading s3://bucket/nosuch", "\n2 objects: 0 copied, 0 there already, 2 failed\n",
		"leat: 2 objects were not staged\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
}

func TestVersionOfAnS3ObjectIsItsOwn(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	if err := backend.SetVersioningConfiguration("bucket",
		gofakes3.VersioningConfiguration{Status: gofakes3.VersioningEnabled}); err != nil {
		t.Fatal(err)
	}
	urls := []string{}
	for _, data := range []string{"first", "second", "third"} {
		put, err := backend.PutObject("bucket", "a/x y.txt", map[string]string{}, strings.NewReader(data),
			int64(len(data)), nil)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "s3://bucket/a/x y.txt?versionId="+string(put.VersionID))
	}
	dir := t.TempDir()
	store := []string{"--endpoint", server.URL, "--anonymous", "--dir", dir}
	for range 2 { // from the store, and from the stage after a look at each version
		said := leat(t, exitDone, dir, append([]string{"stage", "get", "-o", "-", urls[0], urls[1],
			"s3://bucket/a/x y.txt", urls[2]}, store...)...)
		if said != "firstsecondthirdthird" {
			t.Errorf("%q", said)
		}
	}
	if said := leat(t, exitDone, dir, append([]string{"stage", "get", urls[0]}, store...)...); !strings.HasSuffix(said,
		".txt\n") {
		t.Errorf("%q", said)
	}
	if said, want := leat(t, exitDone, dir, "stage", "ls", "--dir", dir),
		urls[1]+"&endpoint="+server.URL; !strings.Contains(said, want) {
		t.Errorf("no %q in %q", want, said)
	}
	leat(t, exitFailed, dir, append([]string{"stage", "get", urls[0] + "0"}, store...)...)
}
