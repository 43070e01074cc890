package live

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is a name that somebody might give a file.
const hostile = `<script>window.pwned=1</script><img src=x onerror="window.pwned=1">"'&`

// fakeRun is a run whose status moves with each look.
type fakeRun struct {
	workers int
	blocks  int
	step    int // blocks done between two looks
	columns int

	mu    sync.Mutex
	looks int
	last  int   // the look after which it stands still, unless 0
	phase Phase // set from outside
}

func (f *fakeRun) status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == 0 || f.looks < f.last {
		f.looks++
	}
	ms := time.Millisecond
	done := min(f.blocks, f.looks*f.step)
	s := Status{
		Command: "leat apply -i red=B4.tif -i nir=B5.tif -o ndvi=ndvi.tif -e '(nir - red) / (nir + red)' --on subprocess --workers 3 --serve 8080",
		Version: "v0.5.0",
		Started: time.Date(2026, 3, 1, 10, 20, 30, 0, time.UTC), Elapsed: time.Duration(f.looks) * 700 * ms,
		Phase:  Computing,
		Blocks: Blocks{Total: f.blocks, Done: done, Lost: 2, Reissued: 2, Copies: 1},
		Pixels: int64(done) * 512 * 512, Rate: 3.5e6 + float64(f.looks%7)*2e5, MeanRate: 3.4e6, Left: 125 * time.Second,
		Memory: 3 << 29, MemoryLimit: 4 << 30, Jobs: []string{"job 17", "jobs 18 and 19"},
		Queues: []Queue{{"blocks read ahead", int64(2 + f.looks%5), 8}, {"results to spool", int64(f.looks % 3), 16},
			{"prefetches", 40, 0}},
		Timings: timing.Summary{Wall: 10 * time.Second, Stages: []timing.StageSummary{
			{Stage: "reading", N: int64(done), Total: 3 * time.Second, Min: ms, Lower: 2 * ms, Median: 3 * ms,
				Upper: 4 * ms, Max: 9 * ms},
			{Stage: "computing", N: int64(done), Total: 8 * time.Second, Min: ms, Lower: 12 * ms,
				Median: 1234 * time.Microsecond, Upper: 24 * ms, Max: 90 * ms},
			{Stage: "encoding", N: int64(done), Total: 95 * time.Second, Min: ms, Lower: 62 * ms, Median: 73 * ms,
				Upper: 94 * ms, Max: 99 * ms},
		}},
		Bottleneck: "Encoding took 61 % of the cores' time: --co COMPRESS=ZSTD writes faster at about the same size, --co COMPRESS=NONE fastest of all.",
		Outputs: []Output{{"ndvi", "/data/" + hostile + ".tif", int64(done) * 300_000},
			{"mask", "s3://bucket/a/rather/long/path/of/an/output/that/goes/on/for/some/time/mask.tif", 0}},
		Messages: []Message{
			{Time: time.Date(2026, 3, 1, 10, 21, 0, 0, time.UTC), Warning: true,
				Text: "input nir has no nodata value; all of its pixels count as valid"},
			{Time: time.Date(2026, 3, 1, 10, 22, 0, 0, time.UTC),
				Text: "worker subprocess-2 was lost: process 4712: signal: killed; its blocks 17, 18 are given out again\nTraceback (most recent call last):\n  File \"" + hostile + "\", line 3, in f\nZeroDivisionError: division by zero"},
		},
	}
	if f.phase != "" {
		s.Phase = f.phase
	}
	if s.Phase == Done {
		s.Blocks.Done, done = f.blocks, f.blocks
	}
	if s.Phase == Failed {
		s.Err = "block 17 (row 1, column 1) of worker subprocess-2 on node1: " + hostile
	}
	if f.columns > 0 {
		s.Grid = &Grid{Columns: f.columns}
		for i := range f.blocks {
			state := BlockWaiting
			switch {
			case i < done:
				state = BlockDone
			case i < done+f.workers || i < done+2:
				state = BlockHeld
			case i < done+f.workers+6:
				state = BlockRead
			case i == done+f.workers+9:
				state = BlockLost
			case i == done+f.workers+10:
				state = BlockCopied
			}
			s.Grid.States = append(s.Grid.States, state)
		}
	}
	for w := range f.workers {
		worker := Worker{Name: fmt.Sprintf("subprocess-%d", w+1), Kind: "subprocess",
			Host: fmt.Sprintf("node%d.cluster.example", w/4+1), PID: 4711 + w, Cores: 2, Slots: 2,
			State: "joined", Done: done / f.workers, Held: []int{done + 2*w, done + 2*w + 1},
			Quiet: time.Duration(w%20+1) * 100 * ms}
		switch w % 50 {
		case 1:
			worker.State, worker.Held, worker.Quiet = "lost", nil, 11*time.Second
		case 2:
			worker.State, worker.Held = "starting", nil
		case 3:
			worker.Name, worker.Held = hostile, []int{1, 2, 3, 4, 5, 6, 7}
		}
		s.Workers = append(s.Workers, worker)
	}
	return s
}

func (f *fakeRun) set(p Phase) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase = p
}

// goTo lets it go on until a look.
func (f *fakeRun) goTo(last int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = last
}

// seconds is a moment for what has to happen, long enough for a slow machine that does much else.
const seconds = 2 * time.Minute

// serve serves a page, which looks often, at a free port of the loopback until the end of the
// test.
func serve(t *testing.T, p *Page) string {
	t.Helper()
	p.interval = 20 * time.Millisecond
	u, err := p.Listen("0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, p) })
	return u
}

func shut(t *testing.T, p *Page) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), seconds)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
}

// parts are what a URL of a page is made of.
func parts(t *testing.T, address string) (base, token string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + u.Host, u.Query().Get("token")
}

// client follows no redirects and keeps no connection.
func client(t *testing.T) *http.Client {
	c := &http.Client{Timeout: seconds, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// ask sends a request and returns the answer with its body.
func ask(t *testing.T, method, address string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	resp, err := client(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// follow opens the events of a page; each call of next gives the next one, and false at the end.
func follow(t *testing.T, base, token string) (next func() (string, bool)) {
	t.Helper()
	next, err := tryToFollow(t, base, token)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func tryToFollow(t *testing.T, base, token string) (next func() (string, bool), err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	bearer(token)(r)
	resp, err := client(t).Do(r)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(resp.Status, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<24)
	return func() (string, bool) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data, true
			}
		}
		_ = lines.Err() // the stream ends with its run or its connection
		return "", false
	}, nil
}
