package vectorcopy

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"leat/objstore"
)

// textStore has its text as the object of every URL, and writes it in two parts.
type textStore string

func (s textStore) Fetch(_ context.Context, _ string, w io.Writer) (objstore.Info, error) {
	for _, part := range []textStore{s[:len(s)/2], s[len(s)/2:]} {
		if _, err := w.Write([]byte(part)); err != nil {
			return objstore.Info{}, err
		}
	}
	return objstore.Info{Size: int64(len(s))}, nil
}

func TestCopiesOfVectorsAreLimited(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	const text = textStore("ten bytes.")
	c, err := makeCopy(t.Context(), text, "s3://bucket/a.geojson?x=1", 10)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(c.Path); err != nil || string(b) != string(text) || !strings.HasSuffix(c.Path, "/a.geojson") {
		t.Errorf("%s has %q, %v", c.Path, b, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := makeCopy(t.Context(), text, "s3://bucket/a.geojson", 9); err == nil ||
		!strings.Contains(err.Error(), "more than the 9 bytes") || !strings.Contains(err.Error(), "s3://bucket/a.geojson") {
		t.Errorf("an object of 10 bytes: %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v stay: %v", left, err)
	}
	if limit := copyLimit(temp); limit < 0 {
		t.Errorf("limit %d", limit)
	}
}
