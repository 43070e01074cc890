package apply

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"leat/apply/outcome"
	"leat/objstore"
)

// vectorStore has a file as the object of every URL.
type vectorStore struct {
	Store
	path, etag string
}

func (s *vectorStore) Fetch(_ context.Context, _ string, w io.Writer) (objstore.Info, error) {
	b, err := os.ReadFile(s.path)
	if err != nil {
		return objstore.Info{}, err
	}
	_, err = w.Write(b)
	return objstore.Info{Size: int64(len(b)), ETag: s.etag}, err
}

// TestResumeWithVectorsInStore checks that copies of the same object are the same input, and that
// none remains.
func TestResumeWithVectorsInStore(t *testing.T) {
	dir := vectorFiles(t)
	temp, out := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	store := &vectorStore{path: filepath.Join(dir, "degrees.geojson"), etag: "1"}
	const name = "s3://bucket/degrees.geojson"
	newJob := func(path string) Job {
		job := vectorJob(out, vectorGrid(), map[string]Vector{"v": {Path: path}})
		job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
		job.Store = store
		return job
	}
	if _, err := Run(t.Context(), newJob(store.path)); err != nil {
		t.Fatal(err)
	}
	want := raw(t, filepath.Join(out, "v.tif"))
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	afterBlocks(t, 3, func() { cancel(stop) })
	if _, err := Run(ctx, newJob(name)); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	again := newJob(name)
	again.Resume = true
	store.etag = "2"
	if _, err := Run(t.Context(), again); !errors.As(err, new(*outcome.ResumeError)) {
		t.Errorf("another version of the vectors: %v", err)
	}
	store.etag = "1"
	if res, err := Run(t.Context(), again); err != nil || res.Resumed < 3 {
		t.Fatal(res, err)
	}
	if string(raw(t, filepath.Join(out, "v.tif"))) != string(want) {
		t.Error("other pixels than those of the local file")
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v stay: %v", left, err)
	}
}
