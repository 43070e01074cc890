//go:build linux

package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
	"leat/objstore"
)

const limitOfEight = 16 * mib

// Eight processes use one directory as they like. They are stopped now and then, all together, and
// what they take is added up: files with names and without.
func TestProcessesStayWithinLimit(t *testing.T) {
	dir := inMemory(t)
	seconds := 3
	if testing.Short() {
		seconds = 1
	}
	p := pool(t, dir, Options{MaxBytes: limitOfEight})
	var all []*proctest.Command
	var pids []int
	for i := range 8 {
		c := proctest.New("eight", dir, strconv.Itoa(i)).Start(t)
		all = append(all, c)
		var b []byte
		soon(t, "the child telling its number", func() (is bool) {
			var err error
			b, err = os.ReadFile(filepath.Join(dir, "pid-"+strconv.Itoa(i)))
			return err == nil && len(b) > 0
		})
		pids = append(pids, ok(strconv.Atoi(string(b)))(t))
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	var most, counted int64
	samples := 0
	// Until the limit was tried, which takes longer on a machine that does much else.
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for ; time.Now().Before(end) || most < limitOfEight/2 && time.Now().Before(end.Add(time.Minute)); samples++ {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		stopAll(t, pids)
		u := ok(p.Usage())(t)
		disk := diskOfAll(t, dir, pids)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
		most, counted = max(most, disk), max(counted, u.Bytes)
		if disk > u.Bytes || u.Bytes > limitOfEight {
			t.Errorf("%d bytes are on the disk, %d are counted, the limit is %d", disk, u.Bytes, limitOfEight)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600))
	for i, c := range all {
		killed, out, err := c.Wait()
		if err != nil || killed {
			t.Errorf("child %d: %v\n%s", i, err, out)
		}
	}
	wantDisk(t, p)
	u := ok(p.Usage())(t)
	t.Logf("%d samples, at most %d KiB on the disk and %d counted, of %d; %+v", samples, most/kib, counted/kib,
		limitOfEight/kib, u.Since)
	if most < limitOfEight/2 {
		t.Errorf("no more than %d KiB were on the disk: the limit was not tried", most/kib)
	}
	if u.Since.Errors != 0 {
		t.Errorf("%d errors", u.Since.Errors)
	}
}

func eightChild(args []string) error {
	dir, number := args[0], args[1]
	seed, _ := strconv.ParseUint(number, 10, 64)
	s := mixed("eight", 0, 3*mib)
	o := Options{MaxBytes: limitOfEight, Workers: 4, RangeBytes: mib}
	if seed%4 == 3 {
		o.Keep = Drop
	}
	p, err := Open(context.Background(), dir, quick(o))
	if err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(dir, "pid-"+number), strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if err := waitForFile(filepath.Join(dir, "go")); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "enough")); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := churn(ctx, p, s, rand.New(rand.NewPCG(seed, 8)), 400, 0); err != nil {
		return err
	}
	return p.Close()
}

// writeWhole writes a file that is never seen half.
func writeWhole(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func stopAll(t testing.TB, pids []int) {
	t.Helper()
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGSTOP)
	}
	for _, pid := range pids {
		soon(t, "a child being stopped", func() bool { return allThreadsStopped(pid) })
	}
}

// allThreadsStopped reports whether no thread of a process runs any more.
func allThreadsStopped(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range tasks {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(b), ") ")
		if !strings.ContainsAny(after[:1], "TtZX") {
			return false
		}
	}
	return err == nil
}

// diskOfAll is what a directory takes, files that have no name any more or none yet included.
func diskOfAll(t testing.TB, dir string, pids []int) int64 {
	t.Helper()
	n, _, err := onDisk(dir)
	must(t, err)
	seen := map[uint64]bool{}
	for _, pid := range pids {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			to, err := os.Readlink(fd)
			if err != nil || !strings.HasPrefix(to, filepath.Join(dir, "stage")) {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(fd, &st) == nil && st.Nlink == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG &&
				!strings.Contains(to, "/procs/") && !seen[st.Ino] {
				seen[st.Ino] = true
				n += st.Blocks * 512
			}
		}
	}
	return n
}

// Another process is at the object and gives nothing, for it is stopped, or its source is.
func TestStoppedCopier(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1000, 3 * mib} {
		dir := t.TempDir()
		child := proctest.New("stuck", dir, strconv.FormatInt(size, 10)).Start(t)
		must(t, waitForFile(filepath.Join(dir, "copying")))
		pid := ok(strconv.Atoi(string(ok(os.ReadFile(filepath.Join(dir, "copying")))(t))))(t)
		stopAll(t, []int{pid})
		s := small("stuck", size)
		p := pool(t, dir, Options{Retry: objstore.Retry{StallTimeout: 200 * time.Millisecond}})
		l := p.Prefetch(s, "a")
		defer l.Release()
		become(t, l, copiedElsewhere)
		begin := time.Now()
		wantBytes(t, l, s, 0)
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("it took %v", d)
		}
		other := p.Prefetch(s, "b")
		defer other.Release()
		wantBytes(t, other, s, 0)
		if c := p.Counters(); c.ReadThrough != 1 || c.Misses != 1 {
			t.Errorf("counters: %+v", c)
		}
		// When it is killed, who has waited takes over, though nobody asks any more.
		again := p.Prefetch(s, "a")
		defer again.Release()
		become(t, again, copiedElsewhere)
		child.Kill()
		_ = unix.Kill(pid, unix.SIGCONT)
		child.Wait()
		become(t, again, staged)
		wantBytes(t, again, s, 0)
		if reads, _, _ := s.count("a"); reads < 2 {
			t.Errorf("%d requests", reads)
		}
	}
}

// stuckChild copies an object whose source stops half-way.
func stuckChild(args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	s := newSource("stuck").put("a", object{size: size, middle: make(chan struct{})})
	p, err := Open(context.Background(), args[0], quick(Options{}))
	if err != nil {
		return err
	}
	l := p.Prefetch(s, "a")
	for {
		if _, _, n := s.count("a"); n > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := writeWhole(filepath.Join(args[0], "copying"), strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	_, err = l.Open(context.Background())
	return err
}

func TestProcessesShareCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := small("shared", 1000)
	middle := make(chan struct{})
	s.put("a", object{size: 1000, middle: middle})
	p, q := pool(t, dir, Options{}), pool(t, dir, Options{}) // two pools are to each other what two processes are
	first, second := p.Prefetch(s, "a"), (*Ref)(nil)
	soon(t, "half of it being read", func() bool { _, _, n := s.count("a"); return n == 500 })
	second = q.Prefetch(s, "a")
	done := make(chan error)
	go func() { _, err := second.Bytes(t.Context()); done <- err }()
	become(t, second, copiedElsewhere)
	close(middle)
	must(t, <-done)
	wantBytes(t, first, s, 0)
	wantBytes(t, second, s, 0)
	if reads, _, _ := s.count("a"); reads != 1 {
		t.Errorf("%d requests", reads)
	}
	if c := q.Counters(); c.Shared != 1 || c.Hits != 0 || c.Misses != 0 {
		t.Errorf("counters: %+v", c)
	}
	if u := ok(q.Usage())(t); u.Processes != 2 || u.Since.Misses != 1 || u.Since.Shared != 1 {
		t.Errorf("usage: %+v", u)
	}
}
