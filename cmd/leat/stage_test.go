package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"leat/internal/units"
	"leat/objstore"
	"leat/stage"
)

// staged are the files with bytes of objects, and those of processes, in the stage of a directory.
func staged(t *testing.T, dir string) (list []string) {
	t.Helper()
	root := filepath.Join(dir, "stage")
	for _, directory := range []string{"objects", "segments", "procs"} {
		if err := filepath.WalkDir(filepath.Join(root, directory), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, path)
			list = append(list, name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// urlList writes a list of n slow objects.
func urlList(t *testing.T, store *webStore, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s/slow/%d.bin\n", store.URL, i)
	}
	name := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(name, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// awaitReads waits until the store was asked for so many slow objects.
func awaitReads(t *testing.T, store *webStore, n int) {
	t.Helper()
	for range 20_000 {
		if store.objects("/slow/") >= n {
			time.Sleep(50 * time.Millisecond) // some bytes of the last
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("nobody asked for %d objects", n)
}

func TestGCAfterKilledPrefetch(t *testing.T) {
	t.Parallel()
	store, dir := newWebStore(t), t.TempDir()
	list := urlList(t, store, 8)
	store.hold(2)
	c, out := process(t, dir, "stage", "warm", list, "--dir", dir, "--workers", "3")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	awaitReads(t, store, 5) // two are there, and three under way
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	store.let()
	said := leat(t, exitDone, dir, "stage", "gc", "--dir", dir)
	if want := "leat: what 1 dead process left was given back\n"; said != want {
		t.Errorf("%q, expected %q; warm said %q", said, want, out)
	}
	var u stage.Usage
	if err := json.Unmarshal([]byte(leat(t, exitDone, dir, "stage", "stat", "--json", "--dir", dir)), &u); err != nil {
		t.Fatal(err)
	}
	if files := staged(t, dir); u.Bytes != u.Objects*slowSize || int64(len(files)) != u.Objects || u.Objects != 2 {
		t.Errorf("%d bytes in %d objects are counted, the files are %q", u.Bytes, u.Objects, files)
	}
	before := u.Objects
	said = leat(t, exitDone, dir, "stage", "warm", list, "--dir", dir)
	if want := fmt.Sprintf("8 objects: %d copied (%s), %d there already, 0 failed\n", 8-before,
		units.FormatSize((8-before)*slowSize), before); said != want {
		t.Errorf("%q, expected %q", said, want)
	}
	leat(t, exitDone, dir, "stage", "gc", "--all", "--dir", dir)
	if files := staged(t, dir); len(files) > 0 {
		t.Errorf("left: %q", files)
	}
}

func TestWaitNamesStoppedProcess(t *testing.T) {
	t.Parallel()
	store, dir := newWebStore(t), t.TempDir()
	store.hold(0)
	c, _ := process(t, dir, "stage", "warm", urlList(t, store, 2), "--dir", dir, "--workers", "2")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	awaitReads(t, store, 2)
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Process.Kill()
		c.Wait()
	}()
	var said bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&said)
	cmd.SetContext(t.Context())
	retry := objstore.Retry{StallTimeout: 100 * time.Millisecond}
	s, err := (&stageFlags{dir: dir}).open(cmd, &stage.Options{Retry: retry})
	if err != nil {
		t.Fatal(err)
	}
	fill := &filling{s: s, progress: newStageProgress(s.people, "staging")}
	urls := []string{store.URL + "/slow/0.bin", store.URL + "/slow/1.bin", store.URL + "/a/other"}
	if err := fill.fill(t.Context(), urls, false, mostHeld, 1); err != nil {
		t.Error(err)
	}
	if d := fill.doc(); d.Failed != 2 || d.Copied != 1 {
		t.Errorf("%+v", d)
	}
	fill.release()
	if err := s.end(); err != nil {
		t.Error(err)
	}
	for _, url := range urls[:2] {
		for _, want := range []string{
			fmt.Sprintf("leat: waiting for a stopped process: process %d is copying %s\n", c.Process.Pid, url),
			fmt.Sprintf("hint: continue it by `kill -CONT %d`, or end it\n", c.Process.Pid),
		} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%q, expected %q", &said, want)
			}
		}
	}
}

func TestParallelPrefetchReadsObjectsOnce(t *testing.T) {
	t.Parallel()
	store, dir := newWebStore(t), t.TempDir()
	list := urlList(t, store, 6)
	var sum fillDoc
	var outs [2]*bytes.Buffer
	var cs [2]*exec.Cmd
	for i := range cs {
		cs[i], outs[i] = process(t, dir, "stage", "warm", list, "--dir", dir, "--json", "--workers", "3")
		if err := cs[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range cs {
		if err := cs[i].Wait(); err != nil {
			t.Fatalf("%v: %s", err, outs[i])
		}
		var d fillDoc
		if err := json.Unmarshal(outs[i].Bytes(), &d); err != nil {
			t.Fatalf("%v: %s", err, outs[i])
		}
		if d.Objects != 6 || d.Failed != 0 || d.Hits+d.Copied+d.Shared != 6 {
			t.Errorf("%+v", d)
		}
		sum.Copied += d.Copied
	}
	if sum.Copied != 6 {
		t.Errorf("%d copies", sum.Copied)
	}
	for i := range 6 {
		if n := store.reads(fmt.Sprintf("/slow/%d.bin", i)); n != 1 {
			t.Errorf("object %d was read %d times", i, n)
		}
	}
}

func TestInterruptedStageCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"warm", []string{"warm"}, "leat: interrupted: 0 objects are staged: run it again for the others\n"},
		{"get into a file", []string{"get", "-o", "out.bin"}, "leat: interrupted: 0 objects were done\n"},
		{"get", []string{"get"}, "leat: interrupted: 0 objects were done\n"},
		{"pin", []string{"pin"}, "leat: interrupted before all was staged: COMMAND was not run\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, dir, home := newWebStore(t), t.TempDir(), t.TempDir()
			store.hold(0)
			args := append([]string{"stage"}, c.args...)
			args = append(args, store.URL+"/slow/x.bin", "--dir", home)
			if c.name == "pin" {
				args = append(args, "--", "touch", "ran")
			}
			p, out := process(t, dir, args...)
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			awaitReads(t, store, 1)
			start := time.Now()
			if err := p.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			p.Wait()
			if d := time.Since(start); d > time.Minute {
				t.Errorf("it took %v", d)
			}
			checkEndedBy(t, p, os.Interrupt)
			if out.String() != c.want {
				t.Errorf("%q", out)
			}
			if files := append(staged(t, home), names(t, dir)...); len(files) > 0 {
				t.Errorf("left: %q", files)
			}
		})
	}
}

func TestPinUntilInterrupted(t *testing.T) {
	t.Parallel()
	store, dir := newWebStore(t), t.TempDir()
	c, _ := process(t, dir, "stage", "pin", store.URL+"/a/x.txt", store.URL+"/a/y.txt", "--dir", dir, "--metrics", ":0")
	c.Stderr = nil
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	lines := bufio.NewReader(said)
	first, err := lines.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(first), "leat: metrics at ")
	if err != nil || !ok || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("%v, %q", err, first)
	}
	if line, err := lines.ReadString('\n'); err != nil ||
		line != "2 objects: 2 copied (40 bytes), 0 there already, 0 failed; all are pinned\n" {
		t.Errorf("%v, %q", err, line)
	}
	text := leat(t, exitDone, dir, "stage", "gc", "--all", "--dir", dir)
	if want := "leat: 8.0 KiB in 2 objects are in use, and stay\nleat: nothing to remove in " + dir +
		"/stage\n"; text != want {
		t.Errorf("%q, expected %q", text, want)
	}
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	for _, want := range []string{"\nleat_stage_misses_total 2\n", "\nleat_stage_dir_objects 2\n",
		"\nleat_stage_dir_bytes 8192\n", "\nleat_stage_dir_processes 1\n", "\nleat_stage_copied_bytes_total 40\n"} {
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%v: no %q in\n%s", err, want, body)
		}
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines)
	c.Wait()
	checkEndedBy(t, c, os.Interrupt)
	if len(rest) > 0 {
		t.Errorf("%q", rest)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("metrics are still served")
	}
	if text := leat(t, exitDone, dir, "stage", "gc", "--all", "--dir",
		dir); text != "leat: 2 objects removed, 8.0 KiB\n" {
		t.Errorf("%q", text)
	}
}

func TestPinEndsProgramAndReturnsItsCode(t *testing.T) {
	t.Parallel()
	store, dir := newWebStore(t), t.TempDir()
	c, out := process(t, dir, "stage", "pin", store.URL+"/a/x.txt", "--dir", dir, "--", "sh", "-c",
		`trap 'leat=$(ls `+dir+`/stage/procs | wc -l); exit $((leat + 40))' TERM; touch ready; while :; do sleep 0.05; done`)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	// While the program ended, pin still held what it pins: its file was there.
	if code := c.ProcessState.ExitCode(); code != 41 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestURLListErrorsHaveLineNumbers(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("no url\n", 20)
	for _, c := range []struct {
		name, text string
		want       []string
		wrong      string
	}{
		{"comments, empty lines, spaces, CRLF, a byte order mark",
			"\xef\xbb\xbfs3://b/x\r\n\n  # y\n\t s3://b/a b \ns3://b/#1\n",
			[]string{"s3://b/x", "s3://b/a b", "s3://b/#1"}, ""},
		{"no end of line", "file:///a", []string{"file:///a"}, ""},
		{"nothing", "", nil, ""},
		{"directories", "s3://b/\ngs://b/p/\n", []string{"s3://b/", "gs://b/p/"}, ""},
		{"mistakes", "s3://b/x\ns3://b\nx\n", nil, "l, line 2: s3://b names no object, expected s3://BUCKET/NAME\n" +
			"l, line 3: x is not a URL: write one such as s3://bucket/name, https://host/name or file:///directory/name"},
		{"secrets", "ftp://u:SECRET@h/x?sig=SECRET\n", nil,
			`l, line 1: ftp://h/x: there is no store called "ftp"; there are s3, gs, azblob, http, https and file`},
		{"control characters", "a\x1b[2J\n", nil,
			`l, line 1: "a\x1b[2J" is not a URL: write one such as s3://bucket/name, https://host/name or file:///directory/name`},
		{"a long line", strings.Repeat("x", 2<<20), nil, "l, line 1: it is longer than 1 MiB: is this a list of URLs?"},
	} {
		got, err := readList(strings.NewReader(c.text), "l", false)
		text := ""
		if err != nil {
			got, text = nil, err.Error()
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if d := cmp.Diff(c.wrong, text); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	_, err := readList(strings.NewReader(many), "l", false)
	if n := len(messages(err)); n != 11 || !strings.HasSuffix(err.Error(),
		"l: the lines behind line 10 were not looked at") {
		t.Errorf("%d messages: %v", n, err)
	}
}

func TestFileNamesOfObjects(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"s3://b/a/x.tif": "x.tif", "s3://b/a/x.tif?versionId=v/1": "x.tif",
		"gs://b/x.tif?versionId=1": "x.tif?versionId=1", "s3://b/a b%20?c": "a b%20?c",
		"https://h/a/x%20y.tif?v=1&sig=S": "x y.tif", "https://h/a/?x": "", "https://h/a%2Fb": "",
		"https://h/%2e%2e": "", "s3://b/..": "", "file:///data/x%20y": "x y", "s3://b/" + strings.Repeat("n", 256): "",
		"https://h/a%00": "",
	} {
		if got := baseName(url); got != want {
			t.Errorf("%s: %q, expected %q", url, got, want)
		}
	}
}

func TestParseAge(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "90s": 90 * time.Second, "7d": 7 * 24 * time.Hour,
		"1.5d": 36 * time.Hour, "1h30m": 90 * time.Minute, "0d": 0} {
		if d, err := parseAge(text); err != nil || d != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "d", "7", "-1h", "never", "1y", "99999999d", "7dd", "1d12h"} {
		if d, err := parseAge(text); err == nil {
			t.Errorf("%q: %v", text, d)
		}
	}
}

func TestStageProgressText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		so                         time.Duration
		known, done, failed, bytes int64
		counting                   bool
		want                       string
	}{
		{time.Second, 100, 0, 0, 0, true, "staging, 1 s so far: 0 of at least 100 objects"},
		{500 * time.Millisecond, 1, 0, 0, 1 << 20, false, "staging, 1 s so far: 0 of 1 object, 1.0 MiB"},
		{10 * time.Second, 100, 40, 10, 100 << 20, false,
			"staging, 10 s so far: 50 of 100 objects, 100 MiB (10.0 MiB/s), 10 failed, about 10 s left"},
		{10 * time.Second, 100, 9, 0, 0, false, "staging, 10 s so far: 9 of 100 objects"},
		{10 * time.Second, 100, 100, 0, 0, false, "staging, 10 s so far: 100 of 100 objects"},
	} {
		p := &stageProgress{what: "staging"}
		p.known.Store(c.known)
		p.done.Store(c.done)
		p.failed.Store(c.failed)
		p.bytes.Store(c.bytes)
		p.counting.Store(c.counting)
		if got := p.text(c.so); got != c.want {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}

func TestStageFailuresAboveProgressLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &stageProgress{w: &b, mode: progressLine, what: "staging", start: time.Now()}
		boom := errors.New("boom")
		if err := p.run(func() error {
			time.Sleep(150 * time.Millisecond)
			p.print([]message{{"x failed", "do it"}})
			time.Sleep(100 * time.Millisecond)
			return boom
		}); err != boom {
			t.Error(err)
		}
		line := "staging, 1 s so far: 0 of 0 objects"
		if want := "\r" + line + "\x1b[K\r\x1b[Kleat: x failed\nhint: do it\n\r" + line + "\x1b[K\r\x1b[K"; b.String() != want {
			t.Errorf("%q, expected %q", b.String(), want)
		}
	})
}

func TestFailuresShownAreBounded(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	f := &filling{progress: &stageProgress{w: &b, mode: progressLines}}
	for i := range 200 {
		f.fail(fmt.Sprintf("s3://b/%d?X-Amz-Signature=SECRET", i), errors.New("boom"))
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != mostFailures+1 || lines[0] != "leat: s3://b/0: boom" ||
		lines[mostFailures] != "leat: further failures are counted only; --json lists all" {
		t.Errorf("%d lines: %q … %q", len(lines), lines[0], lines[len(lines)-1])
	}
	if n := f.progress.failed.Load(); n != 200 {
		t.Errorf("%d failures are counted", n)
	}
}

func TestEvictFlag(t *testing.T) {
	t.Parallel()
	for evict, want := range map[string]stage.Keep{"lru": stage.LRU, "epochs": stage.Epochs} {
		f := &stageFlags{maxBytes: "1G", minFree: "5%", maxAge: "0", workers: 1, evict: evict}
		if o, err := f.options(); err != nil || o.Keep != want {
			t.Errorf("--evict %s: %+v, %v", evict, o, err)
		}
	}
}

func TestErrorNamesObjectOnce(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"s3://b/x?endpoint=http://h", "reading s3://b/x: no", "reading s3://b/x: no"},
		{"s3://b/x", "no", "s3://b/x: no"},
		{"s3://b/a\x1b[31mb?endpoint=http://h", `reading s3://b/a\x1b[31mb: no`, `reading s3://b/a\x1b[31mb: no`},
		{"s3://b/a\x1b[31mb", "no", `"s3://b/a\x1b[31mb": no`},
	} {
		if got := withURL(c[0], c[1]); got != c[2] {
			t.Errorf("%q: %q", c[0], got)
		}
	}
}

func TestGetKeepsFileCreatedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "out.bin")
	const size = 65 << 20 // read piece by piece where there is no space
	var gets atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// to learn the size, to see that it is too large, to write it
		if r.Method == http.MethodGet && gets.Add(1) == 3 {
			if err := os.WriteFile(out, []byte("another's"), 0o600); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, size)))
	}))
	defer srv.Close()
	p, said := process(t, dir, "stage", "get", srv.URL+"/x", "-o", out, "--dir", t.TempDir(), "--max-bytes", "1M")
	_ = p.Run()
	if !strings.Contains(said.String(), "out.bin exists") || p.ProcessState.ExitCode() != exitFailed {
		t.Errorf("%d requests, exit code %d, %q", gets.Load(), p.ProcessState.ExitCode(), said)
	}
	if b, err := os.ReadFile(out); string(b) != "another's" {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if files := names(t, dir); len(files) != 1 {
		t.Errorf("left: %q", files)
	}
}

func TestPathsAreQuotedOnTerminals(t *testing.T) {
	const path = "a\x1bb"
	var b bytes.Buffer
	if got := pathFor(&b, path); got != path {
		t.Errorf("for a pipe: %q", got)
	}
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	defer pty.Close()
	if got := pathFor(pty, path); got != `"a\x1bb"` {
		t.Errorf("for a terminal: %q", got)
	}
}

func TestGetToFileReadsUnversionedObjectAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "out.bin")
	data := bytes.Repeat([]byte("0123456789abc"), 5<<20) // too large for memory
	var whole atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		// A reader that only wants the size takes no more than what fits into the socket.
		n := len(data) - 1<<20
		if _, err := w.Write(data[:n]); err == nil && whole.Add(1) <= 2 {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(data[n:])
	}))
	defer srv.Close()
	p, said := process(t, dir, "stage", "get", srv.URL+"/x", "-o", out, "--dir", t.TempDir(), "--max-bytes", "1M")
	if err := p.Run(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	if b, err := os.ReadFile(out); !bytes.Equal(b, data) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if files := names(t, dir); len(files) != 1 {
		t.Errorf("left: %q", files)
	}
}
