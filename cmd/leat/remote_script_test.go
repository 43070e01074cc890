package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"
)

// mirror is a server of a script's files, and one of S3's protocol with an empty bucket.
type mirror struct {
	files, s3 *httptest.Server
	mu        sync.Mutex
	bytes     map[string]int64 // sent, by path
	closed    bool             // the bucket takes nothing
}

type countedAnswer struct {
	http.ResponseWriter
	m    *mirror
	path string
}

func (c countedAnswer) Write(b []byte) (int, error) {
	c.m.mu.Lock() // before they are sent: who gets them may ask at once
	c.m.bytes[c.path] += int64(len(b))
	c.m.mu.Unlock()
	return c.ResponseWriter.Write(b)
}

func newMirror(t testing.TB, dir string) *mirror {
	t.Helper()
	m := &mirror{bytes: map[string]int64{}}
	directory := http.FileServer(http.Dir(dir))
	m.files = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/closed/") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		directory.ServeHTTP(countedAnswer{w, m, r.URL.Path}, r)
	}))
	t.Cleanup(m.files.Close)
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(backend).Server()
	m.s3 = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		closed := m.closed && r.Method != http.MethodGet && r.Method != http.MethodHead
		m.mu.Unlock()
		if closed {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(m.s3.Close)
	return m
}

// TestRemoteScripts runs testdata/remote, as TestScripts does its own. $WEB serves the script's
// files, below /closed/ none; $S3 is the endpoint of a server with an empty bucket called bucket.
// There is besides
//
//	sent PATH MOST   the server sent at most MOST bytes of a file since the last time; prints how
//	                 many
//	no-parts         no unfinished output is left
//	close-bucket     from now on nothing can be written to the bucket
func TestRemoteScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/remote",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			t := e.T().(testing.TB)
			m := newMirror(t, e.WorkDir)
			// Outputs in a bucket are claimed by their URLs, which are those of all who run this
			// test on the machine.
			e.Setenv("LEAT_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
			e.Values["mirror"] = m
			e.Setenv("WEB", m.files.URL)
			e.Setenv("HOST", strings.TrimPrefix(m.files.URL, "http://"))
			e.Setenv("S3", m.s3.URL)
			e.Setenv("LEAT_CACHE_DIR", filepath.Join(e.WorkDir, "home"))
			e.Setenv("AWS_ACCESS_KEY_ID", "id")
			e.Setenv("AWS_SECRET_ACCESS_KEY", "verysecret")
			e.Setenv("AWS_REGION", "us-east-1")
			e.Setenv("AWS_CONFIG_FILE", filepath.Join(e.WorkDir, "none"))
			e.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(e.WorkDir, "none"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "mounts" {
				return canMount(), nil
			}
			return false, fmt.Errorf("there is no condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refused": refused, "raster": makeRaster, "json": checkJSON, "png": pictureSize, "tmpfs": mountTmpfs,
			"remount": remount,
			"no-parts": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
					if err == nil && (strings.HasSuffix(path, ".leat-part") || strings.HasSuffix(path, ".leat-new")) {
						err = fmt.Errorf("%s is left", path)
					}
					return err
				}))
			},
			"sent": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: sent PATH MOST")
				}
				most, err := strconv.ParseInt(args[1], 10, 64)
				ts.Check(err)
				m := ts.Value("mirror").(*mirror)
				m.mu.Lock()
				defer m.mu.Unlock()
				if n := m.bytes[args[0]]; n > most {
					ts.Fatalf("%d bytes were sent", n)
				}
				fmt.Fprintln(ts.Stdout(), m.bytes[args[0]])
				delete(m.bytes, args[0])
			},
			"close-bucket": func(ts *testscript.TestScript, _ bool, _ []string) {
				m := ts.Value("mirror").(*mirror)
				m.mu.Lock()
				defer m.mu.Unlock()
				m.closed = true
			},
		},
	})
}
