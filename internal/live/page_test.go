package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leat/timing"
)

func TestStatusJSON(t *testing.T) {
	s := Status{
		Command: "leat apply", Version: "v1", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Elapsed: 2 * time.Second, Phase: LayingOut,
		Blocks: Blocks{Total: 6, Done: 3, Lost: 1, Reissued: 1, Copies: 2},
		Grid:   &Grid{3, []BlockState{BlockDone, BlockDone, BlockDone, BlockHeld, BlockRead}},
		Pixels: 99, Rate: 1.5, MeanRate: math.NaN(), Left: time.Second,
		Queues: []Queue{{"spool", 1, 2}}, Bottleneck: "Reading.",
		Timings: timing.Summary{Wall: time.Second, Stages: []timing.StageSummary{{Stage: "reading", N: 1, Total: 7}}},
		Memory:  5, MemoryLimit: 6, Jobs: []string{"job 17"},
		Workers: []Worker{{Name: "w1", Kind: "slurm", Host: "n1", PID: 7, Cores: 4, Slots: 4, State: "joined", Done: 3,
			Held: []int{4}, Quiet: time.Second}},
		Outputs:  []Output{{"o", "o.tif", 5}},
		Messages: []Message{{time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), true, "<b>"}},
	}
	base, token := parts(t, serve(t, New(Options{Title: "the title", Status: func() Status { return s }})))
	_, body := ask(t, "GET", base+"/status.json", bearer(token))
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if h := got["history"].([]any); !cmp.Equal(h[0], []any{2e9, 99., 3.}) {
		t.Errorf("history %v", h)
	}
	delete(got, "history")
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"title": "the title", "command": "leat apply", "version": "v1", "started": "2026-01-02T03:04:05Z", "elapsed_ns": 2e9, "phase": "laying out",
		"blocks": {"total": 6, "done": 3, "lost": 1, "reissued": 1, "copies": 2}, "grid": {"rows": 2, "columns": 3, "side": 1, "cells": "dddhr "},
		"pixels": 99, "pixels_per_s": 1.5, "mean_pixels_per_s": 0, "left_ns": 1e9, "memory_bytes": 5, "memory_limit_bytes": 6, "jobs": ["job 17"], "queues": [{"name": "spool", "depth": 1, "limit": 2}], "bottleneck": "Reading.",
		"timings": {"wall_ns": 1e9, "cpu_ns": 0, "stages": [{"stage": "reading", "n": 1, "total_ns": 7, "min_ns": 0, "lower_quartile_ns": 0, "median_ns": 0, "upper_quartile_ns": 0, "max_ns": 0}]},
		"workers": [{"name": "w1", "kind": "slurm", "host": "n1", "pid": 7, "cores": 4, "slots": 4, "state": "joined", "done": 3, "held": [4], "quiet_ns": 1e9}],
		"outputs": [{"name": "o", "path": "o.tif", "bytes": 5}], "messages": [{"time": "2026-01-02T03:04:06Z", "warning": true, "text": "<b>"}], "last": false}`), &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if strings.Contains(body, "<") {
		t.Errorf("a page that took it for HTML would run it: %s", body)
	}
}

func TestStatusThatJSONCannotHold(t *testing.T) {
	base, token := parts(t, serve(t, New(Options{Title: "the title",
		Status: func() Status { return Status{Phase: Done, Started: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} }})))
	_, body := ask(t, "GET", base+"/status.json", bearer(token))
	if !strings.Contains(body, "can't be shown: ") || !strings.Contains(body, `"title":"the title"`) {
		t.Error(body)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	var s Status
	for i := range maxMessages + 7 {
		s.Messages = append(s.Messages, Message{Text: fmt.Sprint("message ", i)})
	}
	base, token := parts(t, serve(t, New(Options{Status: func() Status { return s }})))
	_, body := ask(t, "GET", base+"/status.json", bearer(token))
	var got Status
	if err := json.Unmarshal([]byte(strings.Replace(body, `"grid":null,`, "", 1)), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Messages) != maxMessages || got.Messages[0].Text != "message 7" ||
		got.Messages[maxMessages-1].Text != fmt.Sprint("message ", maxMessages+6) {
		t.Errorf("%d, %v", len(got.Messages), got.Messages[0])
	}
	_, body = ask(t, "GET", base+"/metrics", bearer(token))
	if !strings.Contains(body, fmt.Sprintf(`leat_run_messages_total{severity="error"} %d`, maxMessages+7)) {
		t.Error(body)
	}
}

func TestGridResolution(t *testing.T) {
	states := func(s string) (all []BlockState) {
		for _, c := range []byte(s) {
			all = append(all, BlockState(c))
		}
		return all
	}
	for _, c := range []struct {
		name string
		g    *Grid
		want string
	}{
		{"none", &Grid{}, `{"rows":0,"columns":0,"side":1,"cells":""}`},
		{"no columns", &Grid{0, states("dd")}, `{"rows":0,"columns":0,"side":1,"cells":""}`},
		{"one", &Grid{1, states("f")}, `{"rows":1,"columns":1,"side":1,"cells":"f"}`},
		{"a last row that is not full", &Grid{2, states("drc")}, `{"rows":2,"columns":2,"side":1,"cells":"drc "}`},
	} {
		if got, err := json.Marshal(c.g); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	for cell, want := range map[string]byte{"....": '.', "dddd": 'd', "d...": '2', "dd..": '5', "ddd.": '7',
		"dddr": 'r', "ddrh": 'h', "dhrc": 'c', "lchr": 'l', "dlfd": 'f'} {
		if got := (&Grid{2, states(cell)}).cell(0, 0, 2); got != want {
			t.Errorf("%s: %c, expected %c", cell, got, want)
		}
	}
	for _, size := range [][2]int{{64, 64}, {64, 65}, {1, 4096}, {1, 4097}, {5000, 1}, {1000, 1000}, {3, 100_000}} {
		rows, columns := size[0], size[1]
		g := &Grid{columns, make([]BlockState, rows*columns)}
		for i := range g.States {
			g.States[i] = BlockDone
		}
		g.States[rows*columns-1] = BlockLost
		text, err := json.Marshal(g)
		var got struct {
			Rows, Columns, Side int
			Cells               string
		}
		if err != nil || json.Unmarshal(text, &got) != nil {
			t.Fatal(err)
		}
		n := len(got.Cells)
		if n != got.Rows*got.Columns || n > maxCells || (rows*columns <= maxCells) != (got.Side == 1) ||
			got.Cells != strings.Repeat("d", n-1)+"l" {
			t.Errorf("%v: %d × %d cells of %d, %d", size, got.Rows, got.Columns, got.Side, n)
		}
	}
}

func TestHistoryCoversRun(t *testing.T) {
	var h history
	const n = 100_000
	for i := range n {
		h.add(point{int64(i)}, i == n-1)
		if len(h.points) >= maxPoints {
			t.Fatal(len(h.points))
		}
	}
	if len(h.points) < maxPoints/4 || h.points[0][0] != 0 || h.points[len(h.points)-1][0] != n-1 {
		t.Errorf("%d points from %d to %d", len(h.points), h.points[0], h.points[len(h.points)-1])
	}
	for i := 2; i < len(h.points)-1; i++ {
		if h.points[i][0]-h.points[i-1][0] != h.points[1][0] {
			t.Fatalf("they are not as far from each other: %v", h.points[:i+1])
		}
	}
}

func TestEventsEndWithClose(t *testing.T) {
	run := &fakeRun{blocks: 100_000, step: 1}
	p := New(Options{Status: run.status})
	base, token := parts(t, serve(t, p))
	next := follow(t, base, token)
	before := -1
	for range 20 {
		text, ok := next()
		if !ok {
			t.Fatal("the events ended")
		}
		var s struct {
			Blocks Blocks
			Last   bool
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Blocks.Done <= before || s.Last {
			t.Fatalf("%d after %d blocks, %v, %v", s.Blocks.Done, before, s.Last, err)
		}
		before = s.Blocks.Done
	}
	run.set(Done)
	closed := make(chan struct{})
	go func() { defer close(closed); shut(t, p) }()
	var last string
	for text, ok := next(); ok; text, ok = next() {
		last = text
	}
	<-closed
	if !strings.Contains(last, `"phase":"done"`) || !strings.HasSuffix(last, `"last":true}`) {
		t.Error(last)
	}
}

func TestEventsOutliveRequestTimeout(t *testing.T) {
	run := &fakeRun{blocks: 100_000, step: 1}
	// What has to come in, and to go out, in this time fails on a machine that stands still for so
	// long: another is tried then, which has longer.
	for timeout := 100 * time.Millisecond; timeout < seconds; timeout *= 4 {
		p := New(Options{Status: run.status})
		p.clientTimeout = timeout
		base, token := parts(t, serve(t, p))
		next, err := tryToFollow(t, base, token)
		if err != nil {
			continue
		}
		begin, ok := time.Now(), true
		for ok && time.Since(begin) < 5*timeout {
			_, ok = next()
		}
		if ok {
			return
		}
	}
	t.Error("events always end")
}

func TestCloseWaitsForLastEvent(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	p := New(Options{Status: run.status})
	serve(t, p)
	p.lastEventLimit = seconds
	w := &heldAnswer{ResponseRecorder: httptest.NewRecorder(), first: make(chan struct{}), last: make(chan struct{}),
		goOn: make(chan struct{})}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		p.events(w, httptest.NewRequestWithContext(t.Context(), "GET", "/events", nil))
	}()
	<-w.first
	run.set(Done)
	closed := make(chan struct{})
	go func() { defer close(closed); shut(t, p) }()
	<-w.last
	select {
	case <-closed:
		t.Error("it has closed while the last event was going out")
	case <-time.After(2 * closeWait):
	}
	close(w.goOn)
	<-followed
	<-closed
}

// heldAnswer takes its last event when it may.
type heldAnswer struct {
	*httptest.ResponseRecorder
	once              sync.Once
	first, last, goOn chan struct{}
}

func (w *heldAnswer) SetWriteDeadline(time.Time) error { return nil }

func (w *heldAnswer) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.first) })
	if bytes.HasSuffix(p, []byte(`"last":true}`)) {
		close(w.last)
		<-w.goOn
	}
	return len(p), nil
}

func TestClose(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	t.Run("without Listen does nothing, and nothing listens after it", func(t *testing.T) {
		p := New(Options{Status: run.status})
		shut(t, p)
		if _, err := p.Listen("0"); err == nil {
			t.Error("it listens")
		}
	})
	t.Run("frees the port, and may be called again", func(t *testing.T) {
		p := New(Options{Status: run.status})
		base, _ := parts(t, serve(t, p))
		if _, err := p.Listen("0"); err == nil {
			t.Error("it listens twice")
		}
		shut(t, p)
		shut(t, p)
		l, err := net.Listen("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	})
	t.Run("does not wait for connections that nobody uses", func(t *testing.T) {
		p := New(Options{Status: run.status})
		base, _ := parts(t, serve(t, p))
		c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		shut(t, p)
		c.SetDeadline(time.Now().Add(seconds))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("it is still open")
		} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Error("it is still open")
		}
	})
	t.Run("does not wait for a client that reads no events", func(t *testing.T) {
		big := strings.Repeat("x", 8<<20)
		p := New(Options{Status: func() Status { return Status{Bottleneck: big} }})
		p.clientTimeout = time.Hour
		base, token := parts(t, serve(t, p))
		host := strings.TrimPrefix(base, "http://")
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /events?token=%s HTTP/1.1\r\nHost: %s\r\n\r\n", token, host)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatal(line, err)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("returns an error if the status does not come", func(t *testing.T) {
		hang := make(chan struct{})
		p := New(Options{Status: func() Status { <-hang; return Status{} }})
		if _, err := p.Listen("0"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(hang)
		<-p.stopped
	})
}

func TestListenAtUsedAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := New(Options{Status: func() Status { return Status{} }})
	if _, err := p.Listen(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}

func TestSlowAndLargeRequests(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	var log strings.Builder
	p := New(Options{Status: run.status, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p.clientTimeout = 50 * time.Millisecond
	patient := New(Options{Status: run.status})
	base, token := parts(t, serve(t, p))
	host := strings.TrimPrefix(base, "http://")
	head := "GET /status.json HTTP/1.1\r\nHost: " + host + "\r\n"
	for name, text := range map[string]string{"nothing": "", "half a line": "GET /",
		"headers without end": head + "X: y\r\n"} {
		if answer := raw(t, host, text); strings.Contains(answer, " 200 ") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	if answer := raw(t, host, head+"Authorization: Bearer "+token+
		"\r\nContent-Length: 1000\r\n\r\nx"); strings.Count(answer, "HTTP/1.1") > 1 {
		t.Errorf("a body that does not come: %s", answer)
	}
	base, _ = parts(t, serve(t, patient)) // which has the time to take it all
	host = strings.TrimPrefix(base, "http://")
	if answer := raw(t, host, "GET /status.json HTTP/1.1\r\nHost: "+host+"\r\nX: "+strings.Repeat("y",
		40<<10)+"\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 431 ") {
		t.Errorf("%.100s", answer)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	p := New(Options{Status: run.status})
	p.clientTimeout = time.Hour
	base, token := parts(t, serve(t, p))
	host := strings.TrimPrefix(base, "http://")
	var conns []net.Conn
	for range maxConnections + 1 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	// The last one is the one too many: the kernel keeps them in order.
	last := conns[maxConnections]
	fmt.Fprintf(last, "GET /status.json?token=%s HTTP/1.1\r\nHost: %s\r\n\r\n", token, host)
	last.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := last.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("it is answered")
	}
	conns[0].Close()
	last.SetReadDeadline(time.Now().Add(seconds))
	if line, err := bufio.NewReader(last).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Error(line, err)
	}
}
