//go:build unix

package lockfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

// What the stress test does is counted in a file that all of its processes map, since killed ones
// can't tell.
const (
	counterRounds = iota
	counterCreated
	counterShared
	counterRemoved
	counterMapped
	counters
)

type tally [counters]atomic.Int64

func openTally(path string) (*tally, []byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		return nil, nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return (*tally)(unsafe.Pointer(&b[0])), b, nil
}

// stressNames are few, so that all meet.
var stressNames = []string{"a", "b", "c", "d", "e"}

// stressChild has some goroutines do rounds until all processes together have done enough.
func stressChild(args []string) error {
	dir, way := args[0], args[1]
	goal, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	setWay(way, func(string) {})
	count, _, err := openTally(filepath.Join(dir, "tally"))
	if err != nil {
		return err
	}
	d, err := OpenRoot(filepath.Join(dir, "leat"), "LEAT_RUNTIME_DIR")
	if err != nil {
		return err
	}
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			s := stress{dir: d, count: count, me: fmt.Sprintf("process %d goroutine %d", os.Getpid(), i)}
			for n := 0; errs[i] == nil; n++ {
				if n%64 == 0 && count[counterRounds].Add(64) > goal+64 {
					break
				}
				errs[i] = s.round()
			}
			for _, m := range s.maps {
				errs[i] = errors.Join(errs[i], m.close())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stress is one goroutine's part.
type stress struct {
	dir   *Dir
	count *tally
	me    string
	seq   int
	maps  []stressMap // mappings that live over several rounds
	buf   [stressSize]byte
}

type stressMap struct {
	*Mapping
	check func() error
}

func (m stressMap) close() error { return errors.Join(m.check(), m.Close()) }

// stressSize is a file's: a text that says who created it, zeros, and a checksum.
const stressSize = 5000

func (s *stress) round() error {
	if len(s.maps) > 0 && rand.IntN(3) == 0 {
		old := s.maps[0]
		s.maps = s.maps[1:]
		if err := old.close(); err != nil {
			return err
		}
	}
	name := stressNames[rand.IntN(len(stressNames))]
	wrote := ""
	fill := func(fd int) error {
		s.seq++
		wrote = fmt.Sprintf("%s by %s number %d", name, s.me, s.seq)
		clear(s.buf[:])
		copy(s.buf[:], wrote)
		binary.LittleEndian.PutUint32(s.buf[stressSize-4:], crc32.ChecksumIEEE(s.buf[:stressSize-4]))
		// In two steps, so that half of it could be seen.
		if _, err := unix.Pwrite(fd, s.buf[:1000], 0); err != nil {
			return err
		}
		_, err := unix.Pwrite(fd, s.buf[1000:], 1000)
		return err
	}
	var h *Lock
	var err error
	created := false
	switch p := rand.IntN(100); {
	case p < 40:
		h, created, err = s.dir.LockOrPublish(name, 0o600, fill)
	case p < 50:
		h, err = s.dir.Publish(name, 0o600, fill)
		created = err == nil
	case p < 70:
		h, err = s.dir.LockShared(name, p%2 == 0)
	case p < 75:
		h, err = s.dir.LockExclusive(name)
	case p < 95:
		removed, err := s.dir.Sweep(name)
		if removed {
			s.count[counterRemoved].Add(1)
		}
		return err
	default:
		n, err := s.dir.SweepSome(3)
		s.count[counterRemoved].Add(int64(n))
		return err
	}
	// One who owns a file may be stopped for longer than others wait.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	if created {
		s.count[counterCreated].Add(1)
	} else {
		s.count[counterShared].Add(1)
	}
	if n, err := unix.Pread(h.Fd(), s.buf[:], 0); n != stressSize || err != nil {
		return fmt.Errorf("%s: a file of %d bytes: %w", name, n, err)
	}
	if err := s.check(h.ID(), name, wrote, created, s.buf[:]); err != nil {
		return err
	}
	id := h.ID()
	there := func() error {
		if !leadsTo(s.dir, name, id) {
			return fmt.Errorf("%s was removed while it was held", name)
		}
		return nil
	}
	switch p := rand.IntN(100); {
	case p < 5 && mappingCarriesLock: // a mapping that lives on
		m, err := h.Map(stressSize, false)
		if err != nil {
			return err
		}
		s.count[counterMapped].Add(1)
		said := string(m.Data[:100])
		s.maps = append(s.maps, stressMap{m, func() error {
			if string(m.Data[:100]) != said {
				return fmt.Errorf("%s was %q, is %q", name, said, m.Data[:100])
			}
			return there()
		}})
		return nil
	case p < 40:
		if err := there(); err != nil {
			return err
		}
		return h.Release()
	default:
		if err := there(); err != nil {
			return err
		}
		last, err := h.RemoveIfLast(there)
		if last {
			s.count[counterRemoved].Add(1)
		}
		return err
	}
}

// check looks at what a holder has got.
func (s *stress) check(id ID, name, wrote string, created bool, b []byte) error {
	if crc32.ChecksumIEEE(b[:stressSize-4]) != binary.LittleEndian.Uint32(b[stressSize-4:]) {
		return fmt.Errorf("%s is not whole: %q", name, b[:100])
	}
	says := string(b[:bytes.IndexByte(b, 0)])
	if created && says != wrote {
		return fmt.Errorf("%s created %q and has %q", s.me, wrote, says)
	}
	if !bytes.HasPrefix(b, []byte(name+" by ")) {
		return fmt.Errorf("under %s lies %q", name, says)
	}
	if !leadsTo(s.dir, name, id) {
		return fmt.Errorf("%s does not lead to the file that is held under it", name)
	}
	return nil
}

func TestStressWithKilledProcesses(t *testing.T) {
	goals := map[string]int64{"unnamed": 100_000, "hidden": 50_000}
	switch {
	case testing.Short():
		goals = map[string]int64{"unnamed": 20_000, "hidden": 20_000}
	case os.Getenv("LEAT_TEST_DIST") != "":
		goals = map[string]int64{"unnamed": 350_000, "hidden": 150_000}
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			dir := fastTemp(t)
			count, mem, err := openTally(filepath.Join(dir, "tally"))
			must(t, err)
			defer func() { must(t, unix.Munmap(mem)) }()
			d := openAgain(t, filepath.Join(dir, "leat"))
			start := time.Now()
			kills := runStress(t, dir, way, goals[way], count)
			t.Logf("%d rounds in %v, %d created, %d shared (%d mapped), %d removed, %d processes killed", goals[way],
				time.Since(start).Round(time.Millisecond),
				count[counterCreated].Load(), count[counterShared].Load(), count[counterMapped].Load(),
				count[counterRemoved].Load(), kills)
			for i, what := range []string{"rounds", "created", "shared", "removed"} {
				if count[i].Load() == 0 {
					t.Errorf("none was %s", what)
				}
			}
			left := names(t, d)
			for _, name := range left {
				if !sweep(t, d, name) {
					t.Errorf("%s is held by nobody and not swept", name)
				}
			}
			if left := names(t, d); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// runStress keeps four children running until the goal is reached, and kills one of them now and
// then.
func runStress(t *testing.T, dir, way string, goal int64, count *tally) (kills int) {
	t.Helper()
	type child struct {
		cmd  *proctest.Command
		shot atomic.Bool
	}
	type end struct {
		at     int
		killed bool
		out    string
		err    error
	}
	var children [4]*child
	ends := make(chan end)
	start := func(i int) {
		c := &child{cmd: proctest.New("stress", dir, way, fmt.Sprint(goal)).Start(t)}
		children[i] = c
		go func() {
			killed, out, err := c.cmd.Wait()
			if killed && c.shot.Load() {
				err = nil
			}
			ends <- end{i, killed, out, err}
		}()
	}
	for i := range children {
		start(i)
	}
	every := 40 * time.Millisecond
	if testing.Short() {
		every /= 4
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for running := len(children); running > 0; {
		select {
		case e := <-ends:
			if e.err != nil {
				t.Errorf("%v\n%s", e.err, e.out)
			}
			if e.killed && count[counterRounds].Load() < goal && !t.Failed() {
				start(e.at)
			} else {
				running--
			}
		case <-tick.C:
			if c := children[rand.IntN(len(children))]; !c.shot.Load() && count[counterRounds].Load() < goal {
				c.shot.Store(true)
				c.cmd.Kill()
				kills++
			}
		}
	}
	return kills
}

// leadsTo reports whether name leads to the file id.
func leadsTo(d *Dir, name string, id ID) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && idOf(&st) == id
}
