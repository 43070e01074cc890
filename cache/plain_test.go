//go:build linux

package cache

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/proctest"
)

// plainWriter is a writer by plain stores, written from docs/format/cache.md alone: what a program
// without compare-and-swap does.
type plainWriter struct {
	fd     int
	head   []byte // page 0 and index
	n, max int64
}

// openPlain opens the cache of a handle.
func openPlain(text string) (*plainWriter, error) {
	h, err := parseHandle(Handle(text))
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", h.pid, h.fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if ok, err := fdio.Lock(fd, unix.F_RDLCK, 1<<61, 1); !ok || err != nil {
		return nil, fmt.Errorf("locking: %v, %w", ok, err)
	}
	var page [4096]byte
	if _, err := fdio.ReadFull(fd, page[:], 0); err != nil {
		return nil, err
	}
	if string(page[:8]) != "LEATCCH1" || le.Uint32(page[8:]) != 2 ||
		le.Uint32(page[124:]) != crc32.ChecksumIEEE(page[:124]) {
		return nil, errors.New("not version 2")
	}
	w := &plainWriter{fd: fd, n: int64(le.Uint64(page[16:])), max: int64(le.Uint64(page[32:]))}
	w.head, err = unix.Mmap(fd, 0, int(4096+8*w.n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return w, err
}

func (w *plainWriter) load(at int64) uint64 { return *(*uint64)(unsafe.Pointer(&w.head[at])) }

func (w *plainWriter) store(at int64, v uint64) { *(*uint64)(unsafe.Pointer(&w.head[at])) = v }

// lock takes the write lock exclusively. It reports false if the cache is frozen.
func (w *plainWriter) lock() (bool, error) {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		ok, err := fdio.Lock(w.fd, unix.F_WRLCK, 1<<61+1, 1)
		if err != nil {
			return false, err
		}
		if ok {
			w.store(136, 0)
			return true, nil
		}
		if w.load(128)>>63 == 1 {
			return false, nil
		}
		w.store(136, uint64(monotonic()+int64(10*time.Millisecond)))
		time.Sleep(pause)
	}
}

// put stores an entry, as the steps of the page are.
func (w *plainWriter) put(i int64, data []byte) (stored bool, err error) {
	slot := 4096 + 8*i
	if w.load(slot) != 0 {
		return false, nil
	}
	sum := crc32.ChecksumIEEE(data)
	if ok, err := w.lock(); !ok || err != nil {
		return false, err
	}
	defer func() {
		_, err1 := fdio.Lock(w.fd, unix.F_UNLCK, 1<<61+1, 1)
		err = errors.Join(err, err1)
	}()
	proctest.Point("plain.locked")
	tail := w.load(128)
	if tail>>63 == 1 || w.load(slot) != 0 {
		return false, nil
	}
	page := slot &^ 4095
	if err := fdio.Allocate(w.fd, unix.FALLOC_FL_KEEP_SIZE, page, min(4096, 4096+8*w.n-page)); err != nil &&
		!errors.Is(err, errors.ErrUnsupported) {
		return false, err
	}
	if w.max > 0 && int64(tail)+64+int64(len(data)) > w.max {
		w.store(128, tail|1<<63)
		return false, nil
	}
	space := (uint64(len(data)) + 64 + 63) &^ 63
	w.store(128, tail+space)
	proctest.Point("plain.reserved")
	var head [64]byte
	copy(head[:], "LEATREC1")
	le.PutUint64(head[8:], uint64(i))
	le.PutUint64(head[16:], uint64(len(data)))
	le.PutUint64(head[24:], tail)
	le.PutUint32(head[32:], sum)
	le.PutUint32(head[60:], crc32.ChecksumIEEE(head[:60]))
	if err := fdio.WriteFull(w.fd, head[:], int64(tail)); err != nil {
		w.store(128, tail)
		return false, err
	}
	proctest.Point("plain.wrote")
	if err := fdio.WriteFull(w.fd, data, int64(tail)+64); err != nil {
		w.store(128, tail)
		return false, err
	}
	if _, err := fdio.Lock(w.fd, unix.F_WRLCK, 1<<61+1, 1); err != nil { // orders the stores
		return false, err
	}
	proctest.Point("plain.written")
	w.store(slot, tail)
	proctest.Point("plain.published")
	w.store(448, w.load(448)+1)
	w.store(456, w.load(456)+space)
	return true, nil
}

func plainOnce(args []string) error {
	w, err := openPlain(args[0])
	if err != nil {
		return err
	}
	i, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	_, err = w.put(i, content(i))
	return err
}

// plainRandom puts until it is killed.
func plainRandom(args []string) error {
	w, err := openPlain(args[0])
	if err != nil {
		return err
	}
	for {
		i := rand.Int64N(w.n)
		if _, err := w.put(i, content(i)); err != nil {
			return err
		}
	}
}

// plainAll is putAll by plain stores.
func plainAll(args []string) error {
	w, err := openPlain(args[0])
	if err != nil {
		return err
	}
	stored := 0
	for i := range w.n {
		ok, err := w.put(i, content(i))
		if err != nil {
			return err
		}
		if ok {
			stored++
		}
	}
	fmt.Print(stored)
	return nil
}

func TestPlainWritersAndOthersPutEachSlotOnce(t *testing.T) {
	n := int64(3000)
	if !testing.Short() {
		n = 20000
	}
	c := create(t, n, nil)
	var list []*proctest.Command
	for _, name := range []string{"plain all", "put all", "plain all", "put all"} {
		list = append(list, proctest.New(name, handleOf(t, c), "").Start(t))
	}
	stored := make([]int, len(list))
	sum := 0
	for k, p := range list {
		stored[k] = ok(strconv.Atoi(awaitEnd(t, p)))(t)
		sum += stored[k]
	}
	for i := range n {
		must(t, c.View(i, func(b []byte) error { return isContent(i, b) }))
	}
	s, rep := stats(t, c), check(t, c)
	if int64(sum) != n || s.Stored != n || rep.FilledSlots != n || !rep.OK() || s.Bad != 0 ||
		s.DeadBytes != rep.DeadBytes {
		t.Errorf("%d stored, %+v, %+v", stored, s, rep)
	}
	if s.RefusedFilled == 0 || s.Frozen {
		t.Errorf("%+v", s)
	}
	t.Logf("stored by plain stores %d and %d, by others %d and %d", stored[0], stored[2], stored[1], stored[3])
}

func TestPlainWritersKeepTheLimit(t *testing.T) {
	const limit = 1 << 20
	c := create(t, 1000, &Options{MaxBytes: limit})
	a := proctest.New("plain all", handleOf(t, c), "").Start(t)
	b := proctest.New("put all", handleOf(t, c), "").Start(t)
	stored := int64(ok(strconv.Atoi(awaitEnd(t, a)))(t) + ok(strconv.Atoi(awaitEnd(t, b)))(t))
	f := ok(c.File())(t)
	st := statOf(t, f)
	must(t, f.Close())
	s, rep := stats(t, c), check(t, c)
	if st.Size > limit || !s.Frozen || stored != s.Stored || rep.FilledSlots != stored || !rep.OK() || stored == 0 ||
		rep.DeadBytes < 0 {
		t.Errorf("%d bytes, %d stored, %+v, %+v", st.Size, stored, s, rep)
	}
}

func TestKillPlainWriterAtEachPoint(t *testing.T) {
	for point, want := range map[string]struct{ visible, dead bool }{
		"plain.locked": {}, "plain.reserved": {dead: true}, "plain.wrote": {dead: true},
		"plain.written": {dead: true}, "plain.published": {visible: true},
	} {
		t.Run(point, func(t *testing.T) {
			c := create(t, 10, nil)
			const i = 4
			awaitKilled(t, proctest.New("plain once", handleOf(t, c), fmt.Sprint(i)).KillAt(point, 1).Start(t))
			if !want.visible {
				wantMiss(t, c, i)
				if !put(t, c, i, string(content(i))) {
					t.Error("the next one was not stored")
				}
			}
			wantEntry(t, c, i, string(content(i)))
			rep := check(t, c)
			dead := int64(0)
			if want.dead {
				dead = (&record{length: int64(len(content(i)))}).space()
			}
			if !rep.OK() || rep.FilledSlots != 1 || rep.DeadBytes != dead {
				t.Errorf("%+v, not %d dead bytes", rep, dead)
			}
			must(t, c.Freeze(t.Context()))
			if s := stats(t, c); s.Bad != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestRandomKillsOfBothKinds kills writers of both kinds while they put into the same slots.
func TestRandomKillsOfBothKinds(t *testing.T) {
	kills := int64(300)
	if testing.Short() {
		kills = 24
	}
	const n = 3000
	dir := inMemory(t)
	var killed, verified atomic.Int64
	for killed.Load() < kills && !t.Failed() {
		c := ok(Create(n, &Options{Dir: dir}))(t)
		h := handleOf(t, c)
		var stop atomic.Bool
		var wg sync.WaitGroup
		for k := range 4 {
			name := []string{"plain random", "put random"}[k%2]
			wg.Go(func() {
				for !stop.Load() {
					p := proctest.New(name, h, "").Start(t)
					life := int64(40 * time.Millisecond)
					if verified.Load() == 0 { // on a slow machine none may live long enough to put anything
						life <<= min(killed.Load()/8, 6)
					}
					time.Sleep(time.Duration(rand.Int64N(life)))
					p.Kill()
					if was, out, err := p.Wait(); !was {
						t.Errorf("a writer ended by itself: %v\n%s", err, out)
						return
					}
					killed.Add(1)
				}
			})
		}
		wg.Go(func() {
			readEntries(t, h, n, &stop, &verified, isContent)
		})
		time.Sleep(300 * time.Millisecond)
		for end := time.Now().Add(20 * time.Second); verified.Load() == 0 && time.Now().Before(end) && !t.Failed(); {
			time.Sleep(10 * time.Millisecond)
		}
		stop.Store(true)
		wg.Wait()
		for i := range int64(n) {
			err := c.View(i, func(b []byte) error { return isContent(i, b) })
			if err != nil && !errors.Is(err, ErrMiss) {
				t.Error(err)
			}
		}
		if rep, s := check(t, c), stats(t, c); rep.Bad != 0 || s.Bad != 0 || s.Faults != 0 {
			t.Errorf("%+v, %+v", rep, s)
		}
		must(t, c.Freeze(t.Context()))
		must(t, c.Close())
	}
	if verified.Load() == 0 {
		t.Error("nothing was put")
	}
	t.Logf("%d kills, %d entries verified", killed.Load(), verified.Load())
}

// TestPlainWriterIsNotStarved has goroutines put all the time, so that the shared lock of their
// process is never free by itself.
func TestPlainWriterIsNotStarved(t *testing.T) {
	const n = 100
	c := create(t, 1<<20, nil)
	w := ok(openPlain(handleOf(t, c)))(t)
	defer func() {
		must(t, unix.Munmap(w.head))
		must(t, unix.Close(w.fd))
	}()
	var next atomic.Int64
	var stop atomic.Bool
	next.Store(n)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				i := next.Add(1)
				if i >= c.N() {
					return
				}
				// A slow reader keeps the lock for a millisecond.
				if _, err := c.TryPutFrom(i, slowReader{}, 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	await(t, "an entry", func() bool { return stats(t, c).Stored > 0 })
	done := make(chan error, 1)
	go func() {
		for i := range int64(n) {
			if stored, err := w.put(i, []byte("plain")); !stored || err != nil {
				done <- fmt.Errorf("slot %d: stored %v, %w", i, stored, err)
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(time.Minute):
		t.Error("it waits for a minute")
	}
	stop.Store(true)
	wg.Wait()
	for i := range int64(n) {
		wantEntry(t, c, i, "plain")
	}
	if rep := check(t, c); !rep.OK() {
		t.Errorf("%+v", rep)
	}
}

type slowReader struct{}

func (slowReader) ReadAt(b []byte, _ int64) (int, error) {
	time.Sleep(time.Millisecond)
	clear(b)
	return len(b), nil
}

// TestPutWaitsForPlainWriter checks what a put does while a writer by plain stores has the lock,
// and while one waits for it.
func TestPutWaitsForPlainWriter(t *testing.T) {
	c := create(t, 10, nil)
	w := ok(openPlain(handleOf(t, c)))(t)
	defer func() {
		must(t, unix.Munmap(w.head))
		must(t, unix.Close(w.fd))
	}()
	if ok, err := w.lock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	done := make(chan bool)
	go func() { done <- put(t, c, 1, "waits") }()
	select {
	case <-done:
		t.Fatal("the put did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	wantMiss(t, c, 1) // readers don't wait
	must(t, ignore(fdio.Lock(w.fd, unix.F_UNLCK, 1<<61+1, 1)))
	if !<-done {
		t.Error("not stored")
	}
	// A time that will not come soon is none, nor one that has passed.
	for _, at := range []uint64{1, uint64(monotonic()) + uint64(time.Hour), 1<<64 - 1} {
		w.store(136, at)
		if c.isExclusiveWait() {
			t.Errorf("%d is waited for", at)
		}
	}
	w.store(136, uint64(monotonic())+uint64(10*time.Millisecond))
	if !put(t, c, 2, "after it") { // nobody has the lock
		t.Error("not stored")
	}
	if w.load(136) > uint64(monotonic()) {
		t.Error("the put did not wait")
	}
}

func TestFreezeAmongPlainWriters(t *testing.T) {
	c := create(t, 20_000, nil)
	a := proctest.New("plain all", handleOf(t, c), "").Start(t)
	b := proctest.New("put all", handleOf(t, c), "").Start(t)
	await(t, "an entry", func() bool { return stats(t, c).Stored > 50 })
	must(t, c.Freeze(t.Context()))
	before, s := check(t, c), stats(t, c)
	stored := int64(ok(strconv.Atoi(awaitEnd(t, a)))(t) + ok(strconv.Atoi(awaitEnd(t, b)))(t))
	after := check(t, c)
	if !before.OK() || !s.Frozen || after.FilledSlots != before.FilledSlots || after.FilledSlots != stored ||
		after.LiveBytes != before.LiveBytes || after.DeadBytes != before.DeadBytes {
		t.Errorf("%+v, then %+v; %d stored, %+v", before, after, stored, s)
	}
}
