package objstore_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"leat/objstore"
)

func TestVersionByTimeNeedsTwoSeconds(t *testing.T) {
	s := serve(t)
	b := open(t, s.URL, nil)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // 695735a5 in base 16, t87v6t in base 36
	after := func(d time.Duration) string { return at.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		tag, date string
		versioned bool
	}{
		"the same second":         {"", after(0), false},
		"one second":              {"", after(time.Second), false},
		"two seconds":             {"", after(2 * time.Second), true},
		"a day":                   {"", after(24 * time.Hour), true},
		"a time to come":          {"", after(-time.Hour), false},
		"no date":                 {"", "", false},
		"no valid date":           {"", "yesterday", false},
		"a tag":                   {`"abc"`, after(0), true},
		"a weak tag":              {`W/"abc"`, after(0), false},
		"nginx's tag":             {`"695735a5-14"`, after(time.Second), false},
		"nginx's tag, later":      {`"695735a5-14"`, after(2 * time.Second), true},
		"a tag of another size":   {`"695735a5-15"`, after(0), true},
		"Caddy's tag":             {`"` + "t87v6t" + "k" + `"`, after(0), false},
		"a tag without any date":  {`"abc"`, "", true},
		"nginx's tag, no date":    {`"695735a5-14"`, "", false},
		"Caddy's tag, a day late": {`"` + "t87v6t" + "k" + `"`, after(24 * time.Hour), true},
	} {
		t.Run(name, func(t *testing.T) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if w.Header()["Date"] = nil; c.date != "" {
					w.Header().Set("Date", c.date)
				}
				if c.tag != "" {
					w.Header().Set("ETag", c.tag)
				}
				http.ServeContent(w, r, "", at, bytes.NewReader(make([]byte, 20)))
				return true
			}
			stat, err := b.Stat(t.Context(), "o")
			if err != nil {
				t.Fatal(err)
			}
			infos := map[string]objstore.Info{"Stat": stat}
			for what, r := range map[string][2]int64{"all": {0, -1}, "a part": {5, 10}} {
				info, body, err := b.Read(t.Context(), "o", r[0], r[1], nil)
				if err != nil {
					t.Fatal(what, err)
				}
				body.Close()
				infos[what] = info
			}
			for what, info := range infos {
				if info.Versioned() != c.versioned || !info.ModTime.Equal(at) || info.Size != 20 {
					t.Errorf("%s: %+v", what, info)
				}
			}
		})
	}
}

func TestFileVersionDespiteEqualSizeAndTime(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	p, at := filepath.Join(dir, "a"), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(path, data string) {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write(p, "old")
	for how, replace := range map[string]func(){
		"renamed": func() {
			write(p+".new", "new")
			if err := os.Rename(p+".new", p); err != nil {
				t.Fatal(err)
			}
		},
		"written in place": func() {
			time.Sleep(20 * time.Millisecond) // the file system's clock ticks at least every 10 ms
			write(p, "NEW")
		},
	} {
		was, body, err := b.Read(t.Context(), "a", 0, -1, nil)
		if err != nil {
			t.Fatal(err)
		}
		replace()
		if how != "renamed" { // the open file is unchanged then
			if _, err := io.ReadAll(body); !errors.Is(err, objstore.ErrChanged) {
				t.Errorf("%s while it is read: %v", how, err)
			}
		}
		body.Close()
		if _, _, err := b.Read(t.Context(), "a", 0, -1, &was); !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

func TestWeakVersionIsNotResumed(t *testing.T) {
	s := serve(t)
	at := time.Now().Truncate(time.Second)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Date", at.Add(time.Second).UTC().Format(http.TimeFormat))
		cut(w, r, at, make([]byte, 5000), 1000)
		return true
	}
	got, err := readAll(t.Context(), objstore.Retry{MinPause: time.Millisecond}, open(t, s.URL, nil), "o", 0, -1)
	if err == nil || len(s.requests) != 1 {
		t.Errorf("%d bytes, %v, %d requests", len(got), err, len(s.requests))
	}
}

func TestServerWithoutHEAD(t *testing.T) {
	s := serve(t)
	b := open(t, s.URL, nil)
	data := []byte("0123456789")
	for _, status := range []int{400, 403, 404, 405, 410, 501} {
		there := true
		s.requests = nil
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.Method == http.MethodHead:
				w.WriteHeader(status)
			case !there:
				w.WriteHeader(http.StatusNotFound)
			default:
				w.Header().Set("ETag", `"v"`)
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			}
			return true
		}
		info, err := b.Stat(t.Context(), "o")
		if err != nil || info.Size != 10 || info.ETag != "v" || len(s.requests) != 2 ||
			s.requests[1].Header.Get("Range") != "bytes=0-0" {
			t.Errorf("%d: %+v, %v, %d requests", status, info, err, len(s.requests))
		}
		there = false
		if _, err := b.Stat(t.Context(), "o"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d, and no such object: %v", status, err)
		}
	}
}
