package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// webStore is a server of made-up objects: below /a/ small ones that tell their names, /big has 8
// MiB, /missing and /forbidden are refused, and what lies below /slow/ has 1 MiB that comes bit by
// bit, in half a second; but after hold only the half of it, until let.
type webStore struct {
	*httptest.Server
	mu     sync.Mutex
	served map[string]int // GETs, by path
	slow   int            // of them are below /slow/
	whole  int            // so many of these come whole
	free   chan struct{}  // closed when the others may go on
}

// hold has but n more of the slow objects come whole.
func (s *webStore) hold(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole, s.free = s.slow+n, make(chan struct{})
}

func (s *webStore) let() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.free)
	s.free = nil
}

func newWebStore(t testing.TB) *webStore {
	s := &webStore{served: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// slowSize and slowBit are of what lies below /slow/.
const slowSize, slowBit = 1 << 20, 32 << 10

func (s *webStore) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.mu.Lock()
		s.served[r.URL.Path]++
		s.mu.Unlock()
	}
	w.Header().Set("ETag", strconv.Quote("v1 of "+r.URL.Path))
	switch {
	case r.URL.Path == "/missing":
		http.NotFound(w, r)
	case r.URL.Path == "/forbidden":
		http.Error(w, "no", http.StatusForbidden)
	case r.URL.Path == "/big":
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("12345678", 1<<20)))
	case strings.HasPrefix(r.URL.Path, "/slow/"):
		w.Header().Set("Content-Length", strconv.Itoa(slowSize))
		if r.Method == http.MethodHead {
			return
		}
		var held chan struct{}
		s.mu.Lock()
		if s.slow++; s.slow > s.whole {
			held = s.free
		}
		s.mu.Unlock()
		bit := []byte(strings.Repeat("s", slowBit))
		for n := 0; n < slowSize; n += slowBit {
			if n == slowSize/2 && held != nil {
				select {
				case <-held:
				case <-r.Context().Done():
					return
				}
			}
			if _, err := w.Write(bit); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	case strings.HasPrefix(r.URL.Path, "/a/"):
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content of "+r.URL.Path+"\n"))
	default:
		http.NotFound(w, r)
	}
}

func (s *webStore) reads(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[path]
}

// objects is how many objects below a directory were asked for.
func (s *webStore) objects(dir string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.served {
		if strings.HasPrefix(path, dir) {
			n++
		}
	}
	return n
}

// TestStageScripts runs testdata/stage, as TestScripts does its own; $STORE is a web server of the
// script's, $ESC and $NL are control characters. There is besides
//
//	served PATH N    the server was asked N times for the bytes of PATH
//	no-parts         no unfinished output is left
func TestStageScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/stage",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			s := newWebStore(e.T().(testing.TB))
			e.Values["store"] = s
			e.Setenv("STORE", s.URL)
			e.Setenv("ESC", "\x1b")
			e.Setenv("NL", "\n")
			e.Setenv("LEAT_CACHE_DIR", filepath.Join(e.WorkDir, "home"))
			e.Setenv("AWS_CONFIG_FILE", filepath.Join(e.WorkDir, "none"))
			e.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(e.WorkDir, "none"))
			return os.WriteFile(filepath.Join(e.WorkDir, "big"), make([]byte, 10<<10), 0o666)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "mounts":
				return canMount(), nil
			}
			return false, fmt.Errorf("there is no condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refused": refused, "json": checkJSON, "tmpfs": mountTmpfs, "remount": remount,
			"no-parts": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, _ fs.DirEntry, err error) error {
					if err == nil && strings.Contains(filepath.Base(path), "leat-part") {
						err = fmt.Errorf("%s is left", path)
					}
					return err
				}))
			},
			"served": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: served PATH N")
				}
				if n := ts.Value("store").(*webStore).reads(args[0]); strconv.Itoa(n) != args[1] {
					ts.Fatalf("%s was read %d times, not %s", args[0], n, args[1])
				}
			},
		},
	})
}
