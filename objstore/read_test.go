package objstore_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/objstore"
)

func TestReadFull(t *testing.T) {
	for _, test := range []struct {
		body  string
		bytes int
		want  error
	}{{"abc", 3, nil}, {"", 0, nil}, {"ab", 3, io.ErrUnexpectedEOF}, {"", 3, io.ErrUnexpectedEOF}} {
		b := make([]byte, test.bytes)
		n, err := objstore.ReadFull(strings.NewReader(test.body), b)
		if n != len(test.body) || !errors.Is(err, test.want) || string(b[:n]) != test.body {
			t.Errorf("%q for %d bytes: %d, %v", test.body, test.bytes, n, err)
		}
	}
	for _, n := range []int{0, 2} {
		if _, err := objstore.ReadFull(strings.NewReader("abc"), make([]byte, n)); err == nil {
			t.Errorf("no error for a body of 3 bytes, %d were requested", n)
		}
	}
}

// TestReadFullFindsChange writes to a file while a part of it is read.
func TestReadFullFindsChange(t *testing.T) {
	const half = 100_000
	for _, changed := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a")
		if err := os.WriteFile(path, bytes.Repeat([]byte{1}, 3*half), 0o600); err != nil {
			t.Fatal(err)
		}
		b := open(t, dir, nil)
		_, body, err := objstore.Retry{}.Read(t.Context(), b, "a", 0, 2*half, nil)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, half)
		if _, err := io.ReadFull(body, first); err != nil {
			t.Fatal(err)
		}
		if changed {
			time.Sleep(20 * time.Millisecond) // a file's times advance in steps
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(bytes.Repeat([]byte{2}, 3*half), 0); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		_, err = objstore.ReadFull(body, make([]byte, half))
		if errors.Is(err, objstore.ErrChanged) != changed || !changed && err != nil {
			t.Errorf("changed: %v, the error is %v", changed, err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
}
