package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/apply"
	"leat/internal/fault"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
	"leat/stage"
)

// TestMain has its own runtime directory: outputs in a store are claimed by their URLs, and all
// users who run these tests on the machine have the same URLs.
func TestMain(m *testing.M) {
	stores := New(&Options{NoStage: true})
	apply.Main(workerFunctions, stores)
	dir, err := os.MkdirTemp("", "leat-remote-test-")
	if err == nil {
		err = os.Setenv("LEAT_RUNTIME_DIR", filepath.Join(dir, "run"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// shop is an HTTP server of the files of a directory, which counts requests.
type shop struct {
	*httptest.Server
	dir string

	mu       sync.Mutex
	delay    time.Duration
	bodies   map[string]int64 // bytes sent, by path
	status   map[string]int   // status to send instead
	asked    []string
	ranges   map[string][]string // as requested, by path
	noRanges bool
	plain    bool                     // send no versions
	bare     string                   // send no version of files with this suffix
	hang     func(*http.Request) bool // requests without a response until their context ends
	before   func(*http.Request)      // called before each response
}

// afterBlocks calls f when a run in this process has finished n blocks.
func afterBlocks(t testing.TB, n int64, f func()) {
	var done atomic.Int64
	fault.Set(func(point string) error {
		if point == "apply.block-done" && done.Add(1) == n {
			f()
		}
		return nil
	})
	t.Cleanup(func() { fault.Set(nil) })
}

func newShop(t testing.TB) *shop {
	s := &shop{dir: t.TempDir(), bodies: map[string]int64{}, ranges: map[string][]string{}, status: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	bare := s.bare
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.ranges[r.URL.Path] = append(s.ranges[r.URL.Path], r.Header.Get("Range"))
	delay, status, noRanges := s.delay, s.status[r.URL.Path], s.noRanges
	s.mu.Unlock()
	time.Sleep(delay)
	if s.before != nil && path.Ext(r.URL.Path) == ".tif" {
		s.before(r)
	}
	if s.hang != nil && s.hang(r) {
		<-r.Context().Done()
		return
	}
	if status != 0 {
		http.Error(w, "no", status)
		return
	}
	f, err := os.Open(filepath.Join(s.dir, filepath.FromSlash(r.URL.Path)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.IsDir() {
		http.NotFound(w, r)
		return
	}
	if noRanges {
		r.Header.Del("Range")
	}
	at := st.ModTime()
	if s.plain || bare != "" && strings.HasSuffix(r.URL.Path, bare) {
		at = time.Time{}
	} else {
		w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, st.Size(), st.ModTime().UnixNano()))
	}
	http.ServeContent(&counting{w, s, r.URL.Path}, r, r.URL.Path, at, f)
}

type counting struct {
	http.ResponseWriter
	s    *shop
	path string
}

func (c *counting) Write(b []byte) (int, error) {
	c.s.mu.Lock() // before they are sent: the receiver may read the count at once
	c.s.bodies[c.path] += int64(len(b))
	c.s.mu.Unlock()
	return c.ResponseWriter.Write(b)
}

// reset clears the counts.
func (s *shop) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
	clear(s.bodies)
	clear(s.ranges)
}

// sent returns how many bytes of a file were sent.
func (s *shop) sent(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies["/"+name]
}

// rangesOf returns the ranges of a file that were requested, for messages.
func (s *shop) rangesOf(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ranges["/"+name])
}

// gets returns how many GET requests a file had.
func (s *shop) gets(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if a == "GET /"+name {
			n++
		}
	}
	return n
}

func (s *shop) path(name string) string { return filepath.Join(s.dir, name) }
func (s *shop) url(name string) string  { return s.URL + "/" + name }

// newStores returns Stores that the test closes, without a stage if dir is "".
func newStores(t testing.TB, dir string) *Stores {
	t.Helper()
	s := New(&Options{NoStage: dir == "", StageDir: dir,
		Store: objstore.Options{Retry: objstore.Retry{MaxAttempts: 5,
			MinPause: time.Millisecond, MaxPause: 10 * time.Millisecond}},
		Stage: stage.Options{MinFree: -1}})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var testGrid = raster.Grid{Width: 700, Height: 520, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
	Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}}

// scene writes a raster of noise.
func scene(t testing.TB, path string, grid raster.Grid, bands int, seed uint64, change func(*apply.Output)) {
	t.Helper()
	o := apply.Output{Path: path, TileSize: 64, NoStatistics: true, NoOverviews: true}
	if change != nil {
		change(&o)
		o.NoOverviews = !o.COG
	}
	_, err := apply.Run(t.Context(), apply.Job{Outputs: map[string]apply.Output{"out": o},
		Controls: apply.Controls{Grid: &grid},
		Func: func(_ context.Context, b *apply.Block) error {
			a := b.NewOut(ndarray.Uint16, bands)
			px := ndarray.Slice[uint16](a)
			r := rand.New(rand.NewPCG(seed, uint64(b.Number)))
			for i := range px {
				px[i] = uint16(r.IntN(3000))
			}
			b.SetOut("out", a)
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
}

// ratio returns a job of two inputs.
func ratio(a, b, out string) apply.Job {
	return apply.Job{
		Inputs:      map[string]apply.Input{"a": apply.File(a), "b": apply.File(b)},
		Outputs:     map[string]apply.Output{"out": {Path: out, TileSize: 64}},
		Expressions: map[string]string{"out": "(a[1] - b[1]) / (a[1] + b[1] + 1)"},
	}
}

func mustRun(t testing.TB, job apply.Job) *apply.Result {
	t.Helper()
	res, err := apply.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func sameFile(t testing.TB, got, want string) {
	t.Helper()
	a, err := os.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s and %s have other bytes (%d and %d)", filepath.Base(got), filepath.Base(want), len(a), len(b))
	}
}

// wantStoreError fails the test unless err is a store's error with that status about the object.
func wantStoreError(t testing.TB, err error, url string, status int) {
	t.Helper()
	if e := new(objstore.Error); !errors.As(err, &e) || e.URL != url || e.Status != status {
		t.Errorf("%v, which should be an answer %d about %s", err, status, url)
	}
}

func wantError(t testing.TB, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; it should say %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q:\n%v", w, err)
		}
	}
}

// logged is a slog.Handler that keeps the warnings of one goroutine at a time.
type logged []struct {
	input string
	err   error
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	*l = append(*l, struct {
		input string
		err   error
	}{})
	last := &(*l)[len(*l)-1]
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Any().(type) {
		case error:
			last.err = v
		case string:
			last.input = v
		}
		return true
	})
	return nil
}
