// Package objstoretest tests that a Source fulfils the contract of objstore.
package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/objstore"
)

// Store is a Source under test, with functions to fill it.
type Store struct {
	Source objstore.Source
	// Put creates an object, or replaces it by another version.
	Put func(t *testing.T, name string, data []byte)
	// Refuses reports whether a name can't be requested; nil: all can.
	Refuses func(name string) bool
	// Versions is true if the store distinguishes versions of equal size written within one second.
	Versions bool
}

// Names lists names of objects that every store must keep unchanged.
var Names = []string{"plain", "with space.txt", "plus+and%25percent", "ümläut/日本", "deep/er/est.tif", "a=b&c,d;e'f(g)",
	"semi:colon@at!~*",
	"hash#question?percent%", `back\slash"quote`, "like__0x41__an escape"}

// Run tests a Source. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Store) {
	data := make([]byte, 100_000)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	t.Run("ranges", func(t *testing.T) {
		s := open(t)
		s.Put(t, "o", data)
		for _, r := range [][2]int64{{0, -1}, {0, 100_000}, {0, 1}, {99_999, 1}, {99_999, 100}, {50_000, -1},
			{100_000, 10}, {0, 200_000}, {12_345, 6_789}} {
			info, body, err := s.Source.Read(t.Context(), "o", r[0], r[1], nil)
			if err != nil {
				t.Fatalf("%v: %v", r, err)
			}
			got, err := io.ReadAll(body)
			body.Close()
			end := int64(len(data))
			if r[1] >= 0 {
				end = min(end, r[0]+r[1])
			}
			if err != nil || !bytes.Equal(got, data[r[0]:end]) || info.Size != int64(len(data)) {
				t.Errorf("%v: %d bytes, %v, size %d", r, len(got), err, info.Size)
			}
		}
	})
	t.Run("empty object", func(t *testing.T) {
		s := open(t)
		s.Put(t, "empty", nil)
		for _, length := range []int64{-1, 10} {
			info, body, err := s.Source.Read(t.Context(), "empty", 0, length, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			body.Close()
			if len(got) > 0 || err != nil || info.Size != 0 {
				t.Errorf("%q %v %d", got, err, info.Size)
			}
		}
		if info, err := s.Source.Stat(t.Context(), "empty"); err != nil || info.Size != 0 {
			t.Error(info, err)
		}
	})
	t.Run("Stat and Read return the same version", func(t *testing.T) {
		s := open(t)
		s.Put(t, "o", data)
		a, err := s.Source.Stat(t.Context(), "o")
		if err != nil {
			t.Fatal(err)
		}
		b, body, err := s.Source.Read(t.Context(), "o", 10, 10, &a)
		if err != nil {
			t.Fatal(err)
		}
		body.Close()
		if a.Name != "o" || a.Size != b.Size || a.ETag != b.ETag || !a.ModTime.Equal(b.ModTime) || a.ETag == "" &&
			a.ModTime.IsZero() {
			t.Errorf("%+v\n%+v", a, b)
		}
	})
	t.Run("another version is ErrChanged", func(t *testing.T) {
		s := open(t)
		s.Put(t, "o", data)
		a, err := s.Source.Stat(t.Context(), "o")
		if err != nil {
			t.Fatal(err)
		}
		other := data[:len(data)-1]
		if s.Versions {
			other = slices.Clone(data)
			other[0]++
		}
		s.Put(t, "o", other)
		_, body, err := s.Source.Read(t.Context(), "o", 0, 10, &a)
		if !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("%v", err)
		}
		if body != nil {
			body.Close()
		}
	})
	t.Run("missing object is fs.ErrNotExist and named", func(t *testing.T) {
		s := open(t)
		s.Put(t, "o", data)
		_, err := s.Source.Stat(t.Context(), "no/such")
		_, _, err2 := s.Source.Read(t.Context(), "no/such", 0, -1, nil)
		for _, err := range []error{err, err2} {
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no/such") || objstore.Temporary(err) {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("names are kept and listed in order", func(t *testing.T) {
		s := open(t)
		for _, n := range Names {
			s.Put(t, n, []byte(n))
		}
		for _, n := range Names {
			_, body, err := s.Source.Read(t.Context(), n, 0, -1, nil)
			if s.Refuses != nil && s.Refuses(n) {
				if err == nil {
					body.Close()
					t.Errorf("%q was read", n)
				}
				continue
			}
			if err != nil {
				t.Errorf("%q: %v", n, err)
				continue
			}
			got, err := io.ReadAll(body)
			body.Close()
			if string(got) != n || err != nil {
				t.Errorf("%q: %q %v", n, got, err)
			}
		}
		l, ok := s.Source.(objstore.Lister)
		if !ok {
			return
		}
		var got []string
		for i, err := range l.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if i.Size != int64(len(i.Name)) {
				t.Errorf("%q has %d bytes", i.Name, i.Size)
			}
			got = append(got, i.Name)
		}
		want := slices.Sorted(slices.Values(Names))
		if !slices.Equal(got, want) {
			t.Errorf("%q\n%q", got, want)
		}
	})
	t.Run("a list has all pages and only names with the prefix", func(t *testing.T) {
		s := open(t)
		l, ok := s.Source.(objstore.Lister)
		if !ok {
			t.Skip("skipped: the Source is not a Lister")
		}
		for i := range 1100 {
			s.Put(t, fmt.Sprintf("many/%04d", i), []byte("x"))
		}
		s.Put(t, "many-not", nil)
		n := 0
		for i, err := range l.List(t.Context(), "many/") {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("many/%04d", n); i.Name != want {
				t.Fatalf("%q where %q was expected", i.Name, want)
			}
			n++
		}
		if n != 1100 {
			t.Errorf("%d objects", n)
		}
	})
	t.Run("upload is complete or absent", func(t *testing.T) {
		s := open(t)
		u, ok := s.Source.(objstore.Uploader)
		if !ok {
			t.Skip("skipped: the Source is not an Uploader")
		}
		big := bytes.Repeat(data, 180) // 18 MB: several parts
		for name, b := range map[string][]byte{"up/empty": nil, "up/small": data, "up/big": big} {
			if err := u.Upload(t.Context(), name, bytes.NewReader(b), int64(len(b)),
				objstore.UploadOptions{}); err != nil {
				t.Fatal(name, err)
			}
			_, body, err := s.Source.Read(t.Context(), name, 0, -1, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			body.Close()
			if !bytes.Equal(got, b) || err != nil {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
		if err := u.Upload(t.Context(), "up/short", bytes.NewReader(data), int64(len(data))+1,
			objstore.UploadOptions{}); err == nil {
			t.Error("an upload of bytes that are not there succeeded")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := u.Upload(ctx, "up/cancelled", bytes.NewReader(big), int64(len(big)),
			objstore.UploadOptions{}); err == nil {
			t.Error("a cancelled upload succeeded")
		}
		for _, name := range []string{"up/short", "up/cancelled"} {
			if _, err := s.Source.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("IfAbsent keeps existing objects, also concurrent ones", func(t *testing.T) {
		s := open(t)
		u, ok := s.Source.(objstore.Uploader)
		if !ok {
			t.Skip("skipped: the Source is not an Uploader")
		}
		absent := objstore.UploadOptions{IfAbsent: true}
		if err := u.Upload(t.Context(), "new", bytes.NewReader(data), int64(len(data)), absent); err != nil {
			t.Fatal(err)
		}
		s.Put(t, "old", []byte("old"))
		if err := u.Upload(t.Context(), "old", bytes.NewReader(data), int64(len(data)), absent); !errors.Is(err,
			fs.ErrExist) || objstore.Temporary(err) || !strings.Contains(err.Error(), "/old") {
			t.Errorf("the error is %v", err)
		}
		race := &racing{Reader: bytes.NewReader(data), first: sync.OnceFunc(func() { s.Put(t, "race", []byte("old")) })}
		if err := u.Upload(t.Context(), "race", race, int64(len(data)), absent); !errors.Is(err, fs.ErrExist) {
			t.Errorf("the error is %v", err)
		}
		for name, want := range map[string]string{"new": string(data), "old": "old", "race": "old"} {
			_, body, err := s.Source.Read(t.Context(), name, 0, -1, nil)
			if err != nil {
				t.Fatal(name, err)
			}
			got, err := io.ReadAll(body)
			body.Close()
			if string(got) != want || err != nil {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
	})
	t.Run("context ends request", func(t *testing.T) {
		s := open(t)
		s.Put(t, "o", data)
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		if _, err := (objstore.Retry{}).Stat(ctx, s.Source, "o"); err != nil && !errors.Is(err,
			context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// racing calls first when it is first read.
type racing struct {
	*bytes.Reader
	first func()
}

func (r *racing) ReadAt(b []byte, at int64) (int, error) {
	r.first()
	return r.Reader.ReadAt(b, at)
}
