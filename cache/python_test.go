//go:build linux

package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/proctest"
	"leat/internal/pytest"
)

// sameContent is what slot i holds in tests of writers in Go and in Python.
func sameContent(i int64) []byte {
	sum := sha256.Sum256(le.AppendUint64(nil, uint64(i)))
	length := int(le.Uint32(sum[:])) % 20000
	return bytes.Repeat(sum[:], length/len(sum)+1)[:length]
}

func isSameContent(i int64, b []byte) error {
	if !bytes.Equal(b, sameContent(i)) {
		return fmt.Errorf("slot %d holds %d bytes that were never put there: %.40x", i, len(b), b)
	}
	return nil
}

// putSame puts and reads slots that writers in Python also put, until it is killed or there is no
// empty slot.
func putSame(args []string) error {
	c, err := attachArgs(args)
	if err != nil {
		return err
	}
	for _, k := range rand.Perm(int(c.N())) {
		i := int64(k)
		if _, err := c.Put(i, sameContent(i)); err != nil {
			return err
		}
		if err := c.View(i, func(b []byte) error { return isSameContent(i, b) }); err != nil {
			return err
		}
	}
	return c.Close()
}

// putSameInPython is putSame by leat.Cache. Odd runs fill, so that claims of slots meet too.
const putSameInPython = `
import hashlib, random, sys
import leat

def same(i):
    s = hashlib.sha256(i.to_bytes(8, "little")).digest()
    n = int.from_bytes(s[:4], "little") % 20000
    return (s * (n // 32 + 1))[:n]

cache = leat.Cache.attach(sys.argv[1])
order = list(range(len(cache)))
random.shuffle(order)
for i in order:
    want = same(i)
    if sys.argv[2] == "fill":
        got = cache.get_or_fill(i, lambda: want)
    else:
        cache.put(i, want)
        got = cache.get(i)
    if got != want:
        sys.exit(f"slot {i} holds {got!r:.80}, not {want!r:.80}")

cache.close()
`

// pythonWriter starts a writer in Python. Its process can be killed.
func pythonWriter(t *testing.T, python string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(python, append([]string{"-B", "-c", putSameInPython}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+ok(filepath.Abs("../python"))(t))
	return cmd
}

// TestGoAndPythonWriters has three writers in Go and three in Python fill cache after cache, while
// a reader verifies what they put. At every second cache some are killed at random. It takes a
// minute where LEAT_TEST_DIST is set.
func TestGoAndPythonWriters(t *testing.T) {
	python := pytest.Python(t, "zlib")
	least, length, n := 2, 10*time.Second, int64(2000)
	if testing.Short() {
		least, length, n = 1, 0, 1000
	}
	if os.Getenv("LEAT_TEST_DIST") != "" {
		length = time.Minute
	}
	dir := inMemory(t)
	caches, kills, verified := 0, atomic.Int64{}, atomic.Int64{}
	for end := time.Now().Add(length); caches < least || time.Now().Before(end); caches++ {
		killing := caches%2 == 1
		c := ok(Create(n, &Options{Dir: dir}))(t)
		h := handleOf(t, c)
		var writers, reader sync.WaitGroup
		var stop atomic.Bool
		for k := range 3 {
			writers.Go(func() {
				for r := 0; ; r++ {
					p := proctest.New("put same", h, "").Start(t)
					killed := killing && r < 3
					if killed {
						time.Sleep(rand.N(100 * time.Millisecond))
						p.Kill()
						kills.Add(1)
					}
					was, out, err := p.Wait()
					if err != nil && !(killed && was) {
						t.Errorf("a writer in Go: %v\n%s", err, out)
					}
					if !was {
						return
					}
				}
			})
			writers.Go(func() {
				for r := 0; ; r++ {
					var out bytes.Buffer
					cmd := pythonWriter(t, python, h, []string{"put", "fill", "put"}[k])
					cmd.Stdout, cmd.Stderr = &out, &out
					if err := cmd.Start(); err != nil {
						t.Error(err)
						return
					}
					killed := killing && r < 3
					if killed { // it takes a tenth of a second to start
						time.Sleep(rand.N(400 * time.Millisecond))
						_ = cmd.Process.Kill()
						kills.Add(1)
					}
					if err := cmd.Wait(); err != nil && !killed {
						t.Errorf("a writer in Python: %v\n%s", err, out.String())
					}
					if !killed {
						return
					}
				}
			})
		}
		reader.Go(func() {
			readEntries(t, h, n, &stop, &verified, isSameContent)
		})
		writers.Wait()
		stop.Store(true)
		reader.Wait()
		for i := range n {
			must(t, c.View(i, func(b []byte) error { return isSameContent(i, b) }))
		}
		s, rep := stats(t, c), check(t, c)
		if !rep.OK() || rep.FilledSlots != n || s.Bad != 0 || s.Faults != 0 ||
			!killing && (s.Stored != n || (rep.DeadBytes == 0) != (s.RefusedRace == 0)) {
			t.Errorf("%+v, %+v", rep, s)
		}
		must(t, c.Freeze(t.Context())) // no lock of a dead writer stands in the way
		must(t, c.Close())
		if t.Failed() {
			return
		}
	}
	if verified.Load() == 0 {
		t.Error("the reader saw nothing")
	}
	t.Logf("%d caches of %d entries, %d kills, %d reads", caches, n, kills.Load(), verified.Load())
}

// TestPythonReadsAndWritesFiles passes files of all kinds from one to the other.
func TestPythonReadsAndWritesFiles(t *testing.T) {
	python := pytest.Python(t, "zlib")
	dir := t.TempDir()
	c := ok(Open(filepath.Join(dir, "go.cache"), 3000, &Options{MaxBytes: 1 << 20}))(t)
	put(t, c, 2999, "from Go")
	put(t, c, 0, "")
	must(t, preserve(c, filepath.Join(dir, "go.final"), false))
	must(t, c.Close())
	old := createOld(t, filepath.Join(dir, "old.cache"), 10, nil)
	must(t, old.Close())
	script := `
import os, sys
import leat
os.chdir(sys.argv[1])
with leat.Cache.load("go.final") as c:
    assert (len(c), c.get(2999), c.get(0), c.get(1)) == (3000, b"from Go", b"", None)
    assert c.frozen and not c.put(1, b"late") and c.max_bytes == 1 << 20
with leat.Cache(3000, "python.cache", max_bytes=1 << 20) as c:
    assert c.put(2999, b"from Python") and c.put(0, b"") and not c.put(0, b"again")
with leat.Cache(20, "kept.cache") as c:
    for i in range(20):
        assert c.put(i, b"%d" % i * i)
    assert c.preserve("python.final") == 0
try:
    leat.Cache(10, "old.cache")
except leat.Error as e:
    assert "version 1" in str(e), e
else:
    raise SystemExit("version 1 was opened")
`
	cmd := exec.Command(python, "-B", "-c", script, dir)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+ok(filepath.Abs("../python"))(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c = ok(Open(filepath.Join(dir, "python.cache"), 3000, &Options{MaxBytes: 1 << 20}))(t)
	wantEntry(t, c, 2999, "from Python")
	wantEntry(t, c, 0, "")
	wantMiss(t, c, 1)
	if s := stats(t, c); s.Stored != 2 || s.RefusedFilled != 1 || s.DeadBytes != 0 || s.Frozen {
		t.Errorf("%+v", s)
	}
	must(t, c.Close())
	c = ok(Load(filepath.Join(dir, "python.final"), nil))(t)
	defer c.Close()
	for i := range int64(20) {
		wantEntry(t, c, i, string(bytes.Repeat([]byte(fmt.Sprint(i)), int(i))))
	}
	if rep := check(t, c); !rep.OK() || !rep.Preserved || rep.FilledSlots != 20 {
		t.Errorf("%+v", rep)
	}
}

// TestPythonWaitsForAFillInGo has the two wait for each other's fills of a slot.
func TestPythonWaitsForAFillInGo(t *testing.T) {
	python := pytest.Python(t, "zlib")
	c := create(t, 10, nil)
	if ok, err := lock(c.fd, lockFill+3, exclusive); !ok || err != nil { // as a running fill does
		t.Fatal(ok, err)
	}
	cmd := exec.Command(python, "-B", "-c", `
import sys
import leat
cache = leat.Cache.attach(sys.argv[1])
print("ready", flush=True)
print(cache.get_or_fill(3, lambda: b"by Python").decode())
cache.get_or_fill(4, lambda: print("filling", flush=True) or sys.stdin.readline().encode())
`, handleOf(t, c))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+ok(filepath.Abs("../python"))(t))
	in := ok(cmd.StdinPipe())(t)
	out := ok(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	expect := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(out, b); err != nil || string(b) != want {
			t.Fatalf("%q, %v; not %q", b, err, want)
		}
	}
	expect("ready\n")
	put(t, c, 3, "by Go")
	must(t, ignore(lock(c.fd, lockFill+3, unlocked)))
	expect("by Go\n")
	expect("filling\n")
	filled := make(chan string)
	go func() {
		b, err := c.GetOrFill(t.Context(), 4, func(context.Context) ([]byte, error) { return []byte("by Go"), nil })
		filled <- fmt.Sprintf("%s, %v", b, err)
	}()
	select {
	case got := <-filled:
		t.Fatalf("it did not wait: %s", got)
	case <-time.After(50 * time.Millisecond):
	}
	must(t, ignore(io.WriteString(in, "slow\n")))
	if got := <-filled; got != "slow\n, <nil>" {
		t.Error(got)
	}
	must(t, cmd.Wait())
}
