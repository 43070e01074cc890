package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"leat/cache"
)

func TestInterruptedPutOfPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leat(t, exitDone, dir, "cache", "create", "a.cache", "10")
	c, out := process(t, dir, "cache", "put", "a.cache", "3")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for held := false; !held; time.Sleep(5 * time.Millisecond) { // it reads soon after it has opened the cache
		info, err := cache.Inspect(filepath.Join(dir, "a.cache"))
		if err != nil {
			t.Fatal(err)
		}
		held = info.Held
	}
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	if want := "leat: interrupted: nothing was written, and files that were there are as they were\n"; out.String() != want {
		t.Errorf("%q", out)
	}
	checkEndedBy(t, c, os.Interrupt)
	if said := leat(t, exitDone, dir, "cache", "ls", "a.cache"); said != "SLOT  BYTES\n" {
		t.Errorf("%q", said)
	}
}

func TestPutOfLargeEntryUsesLittleMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leat(t, exitDone, dir, "cache", "create", "a.cache", "10")
	const size = 160 << 20
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for i, in := range []io.Reader{nil, f, io.MultiReader(pipe)} { // a file, standard input from a file and from a pipe
		args := []string{"cache", "put", "a.cache", strconv.Itoa(i)}
		if in == nil {
			args = append(args, "large")
		}
		if used := maxRSS(t, dir, in, args...); used <= 0 || used > 128<<20 {
			t.Errorf("input %d of %d MiB: %d MiB of memory", i, size>>20, used>>20)
		}
	}
	if out := leat(t, exitDone, dir, "cache", "ls",
		"a.cache"); out != "SLOT  BYTES\n   0  167772160\n   1  167772160\n   2  167772160\n" {
		t.Errorf("%q", out)
	}
	if list := names(t, dir); len(list) != 2 {
		t.Errorf("left: %q", list)
	}
}

// maxRSS runs leat, which must succeed, and returns the most memory that was resident, in bytes.
// The kernel counts the memory of a process that starts another as the other's, so a small process
// does it.
func maxRSS(t *testing.T, dir string, stdin io.Reader, args ...string) int64 {
	t.Helper()
	c := exec.CommandContext(t.Context(), "maxrss", append([]string{"leat"}, args...)...)
	c.Dir, c.Stdin = dir, stdin
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := strings.TrimSpace(string(out))
	used, err := strconv.ParseInt(text[strings.LastIndexByte(text, '\n')+1:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// printMaxRSS is the command maxrss COMMAND ARG...: it runs the command and prints, in a last line,
// the most memory that was resident, in bytes.
func printMaxRSS() {
	c := exec.Command(os.Args[1], os.Args[2:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	unit := int64(1 << 10)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	fmt.Println(int64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * unit)
}

func TestProgressTimeLeft(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var done int64
	p := &watching{what: "exporting", done: func() (int64, int64) { return done, 1000 * mib }}
	for so := range 60 { // a slow begin
		done = int64(so) * mib / 10
		p.text(time.Duration(so) * time.Second)
	}
	for so := 60; so <= 70; so++ {
		done += 10 * mib
		text := p.text(time.Duration(so) * time.Second)
		if want := "about 88 s left"; so == 70 && !strings.Contains(text, want) {
			t.Errorf("%q, expected %q", text, want)
		}
	}
	for so := 71; so < 90; so++ { // it stands still
		if text := p.text(time.Duration(so) * time.Second); so > 80 && strings.Contains(text, "left") {
			t.Errorf("%q", text)
		}
	}
}

func TestExportProgressCountsIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leat(t, exitDone, dir, "cache", "create", "a.cache", "300000")
	path := filepath.Join(dir, "a.cache")
	f := &cacheFlags{}
	c, _, err := openCache(path, f)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(7, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	info, err := cache.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExportPFIO(t.Context(), filepath.Join(dir, "x"), false); err != nil {
		t.Fatal(err)
	}
	if done, total := f.of(info, 16*info.Slots)(); done != total || total != 16*300000+1088 {
		t.Errorf("%d of %d", done, total)
	}
}

func TestCacheProgressText(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		name        string
		so          time.Duration
		done, total int64
		want        string
	}{
		{"nothing is known yet", 3 * time.Second, 0, 100 * mib, "importing 1 GiB, 3 s so far"},
		{"the total is not known", 3 * time.Second, 5, 0, "importing 1 GiB, 3 s so far"},
		{"a fifth", 3 * time.Second, 20 * mib, 100 * mib,
			"importing 1 GiB, 3 s so far: 20.0 MiB of 100 MiB (20 %), about 12 s left"},
		{"heads of records count too", 3 * time.Second, 101 * mib, 100 * mib,
			"importing 1 GiB, 3 s so far: 100 MiB of 100 MiB (100 %)"},
	} {
		p := &watching{what: "importing 1 GiB", done: func() (int64, int64) { return c.done, c.total }}
		if got := p.text(c.so); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

func TestCacheProgressOnTerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		ended := make(chan error, 1)
		time.AfterFunc(2050*time.Millisecond, func() { ended <- nil })
		if err := (&watching{w: &b, mode: progressLine, what: "checking 1 GiB"}).until(t.Context(), ended); err != nil {
			t.Error(err)
		}
		lines := strings.Split(b.String(), "\r")
		if len(lines) != 22 || lines[20] != "checking 1 GiB, 2 s so far\x1b[K" || lines[21] != "\x1b[K" {
			t.Errorf("%q", lines)
		}
	})
}

func TestCacheProgressInLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		ended := make(chan error, 1)
		boom := errors.New("boom")
		time.AfterFunc(11*time.Second, func() { ended <- boom })
		if err := (&watching{w: &b, mode: progressLines, what: "checking 1 GiB"}).until(t.Context(),
			ended); err != boom {
			t.Error(err)
		}
		if want := "checking 1 GiB, 5 s so far\nchecking 1 GiB, 10 s so far\n"; b.String() != want {
			t.Errorf("%q", b.String())
		}
	})
}

func TestInterruptedCacheOperationIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		err := (&watching{w: new(bytes.Buffer), mode: progressLine, what: "checking"}).until(ctx, make(chan error))
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if d := time.Since(start); d != time.Minute+endsWithin {
			t.Errorf("%v", d)
		}
	})
}
