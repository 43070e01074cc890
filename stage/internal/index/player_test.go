//go:build linux

package index

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leat/internal/lockfile"
	"leat/internal/proctest"
)

var children = map[string]proctest.Func{"player": player, "walk": walk, "opener": opener, "stopper": stopper}

// directory stands for what keeps the bytes, for several processes: a file for each object, whose
// name contains its number and how many units it takes, and whose content its key and version.
type directory string

func (f directory) path(p Place) string {
	return filepath.Join(string(f), "b"+strconv.FormatUint(p.ID, 10)+strings.TrimRight(string(p.Ext[:]), "\x00"))
}

func (f directory) content(o Object) string {
	return hex.EncodeToString(o.Key[:]) + hex.EncodeToString(o.Version[:])
}

// place makes the place of a new object that takes some units.
func (f directory) place(id uint64, units int64) (p Place) {
	p.ID, p.Offset = id, -1
	copy(p.Ext[:], "."+strconv.FormatInt(units, 10))
	return p
}

func (f directory) write(o Object) error {
	text := f.content(o)
	if err := os.WriteFile(f.path(o.Place), []byte(text[:10]), 0o600); err != nil {
		return err
	}
	proctest.Point("test.writing")
	return os.WriteFile(f.path(o.Place), []byte(text), 0o600)
}

func (f directory) free(p Place, charge int64) error {
	if p.Ext == ([16]byte{}) {
		return fmt.Errorf("half of a place is to be freed: %v", p)
	}
	err := os.Remove(f.path(p))
	proctest.Point("test.removed")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// check returns what is wrong with the bytes of an object.
func (f directory) check(o Object) error {
	b, err := os.ReadFile(f.path(o.Place))
	if err == nil && string(b) != f.content(o) {
		err = fmt.Errorf("%s holds %q, not %q", f.path(o.Place), b, f.content(o))
	}
	return err
}

func (f directory) keep(o Object) bool {
	_, units, err := parse(filepath.Base(f.path(o.Place)))
	return err == nil && o.Charge == units*unit && f.check(o) == nil
}

func (f directory) tidy(all []Object) error {
	known := map[string]bool{}
	for _, o := range all {
		known[filepath.Base(f.path(o.Place))] = true
	}
	entries, err := os.ReadDir(string(f))
	for _, e := range entries {
		if !known[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(string(f), e.Name())))
			proctest.Point("test.tidying")
		}
	}
	return err
}

// parse reads the name of a file.
func parse(name string) (id uint64, units int64, err error) {
	var rest string
	if n, err := fmt.Sscanf(name, "b%d.%d%s", &id, &units, &rest); n != 2 || id == 0 || units < 1 {
		return 0, 0, fmt.Errorf("%s is not a name of bytes: %w", name, err)
	}
	return id, units, nil
}

// sums are the units and files in the directory.
func (f directory) sums() (bytes, files int64, err error) {
	entries, err := os.ReadDir(string(f))
	for _, e := range entries {
		_, units, err1 := parse(e.Name())
		err = errors.Join(err, err1)
		bytes, files = bytes+units*unit, files+1
	}
	return bytes, files, err
}

// Of the game: so many keys, space for fewer.
const gameKeys = 100

var (
	gameLimits = Limits{Bytes: 120 * unit, Files: 60}
	// slowest is how long one step may take, however the others end. The monitor's stops are within
	// it.
	slowest = time.Minute
)

// game is one process's part in a directory.
type game struct {
	dir  string
	d    *lockfile.Dir
	l    *Index
	f    directory
	seen [gameKeys]atomic.Uint64 // the newest version of each key that was seen: versions are numbers that grow
	long atomic.Int64            // the longest step, nanoseconds
}

func joinGame(dir string) (*game, error) {
	g := &game{dir: dir, f: directory(filepath.Join(dir, "bytes"))}
	var err error
	if g.d, err = lockfile.OpenRoot(filepath.Join(dir, "stage"), ""); err != nil {
		return nil, err
	}
	if g.l, err = Open(context.Background(), g.d, g.f.free, g.f.keep, g.f.tidy); err != nil {
		return nil, errors.Join(err, g.d.Close())
	}
	return g, nil
}

func (g *game) leave() error { return errors.Join(g.l.Close(), g.d.Close()) }

// player plays until it must stop, or is killed: in a directory, with a number and a seed.
func player(args []string) error {
	dir, me := args[0], args[1]
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	pid := filepath.Join(dir, "pid."+me)
	if err := errors.Join(os.WriteFile(pid+".new", []byte(strconv.Itoa(os.Getpid())), 0o600),
		os.Rename(pid+".new", pid)); err != nil {
		return err
	}
	for !exists(filepath.Join(dir, "go."+me)) { // until the monitor knows whom to stop
		time.Sleep(200 * time.Microsecond)
	}
	long := int64(0)
	for !mustStop(dir) {
		g, err := joinGame(dir)
		if err != nil {
			return err
		}
		var errs [2]error
		var wg sync.WaitGroup
		steps := 50 + rnd.IntN(1000)
		for i := range errs {
			r := rand.New(rand.NewPCG(seed, rnd.Uint64()))
			wg.Go(func() { errs[i] = g.play(r, steps) })
		}
		wg.Wait()
		if err := errors.Join(errs[0], errs[1], g.leave()); err != nil {
			return fmt.Errorf("player %s: %w", me, err)
		}
		long = max(long, g.long.Load())
	}
	fmt.Println("the longest step took", time.Duration(long))
	return nil
}

func mustStop(dir string) bool { return exists(filepath.Join(dir, "stop")) }

// play does steps at random, holding some objects meanwhile.
func (g *game) play(r *rand.Rand, steps int) (err error) {
	var held []*Entry
	let := func(k int) error {
		e := held[k]
		held = append(held[:k], held[k+1:]...)
		if err := g.f.check(e.Object); err != nil {
			return fmt.Errorf("a pinned object: %w", err)
		}
		switch p := r.IntN(20); {
		case p == 0:
			e.Discard()
			e.Unpin()
		case p < 4:
			_, err := e.Drop()
			return err
		default:
			e.Unpin()
		}
		return nil
	}
	defer func() {
		for len(held) > 0 {
			err = errors.Join(err, let(0))
		}
	}()
	for n := range steps {
		if n%20 == 0 && mustStop(g.dir) {
			return nil
		}
		begun := time.Now()
		switch p := r.IntN(100); {
		case p < 75:
			e, err := g.get(r, p < 10)
			if err != nil {
				return err
			}
			if e != nil {
				held = append(held, e)
			}
		case p < 80:
			n := r.IntN(6)
			if _, err := g.l.Evict(func() bool { n--; return n < 0 }); err != nil {
				return fmt.Errorf("evicting: %w", err)
			}
		case p < 81:
			if err := g.l.Each(func(o Object) bool { return o.Key != Key{} }); err != nil {
				return err
			}
		case p < 82:
			g.l.Count(0, 1)
			if _, _, err := g.l.Counts(); err != nil {
				return err
			}
		case len(held) > 0:
			if err := let(r.IntN(len(held))); err != nil {
				return err
			}
		}
		for len(held) > 5 {
			if err := let(r.IntN(len(held))); err != nil {
				return err
			}
		}
		took := time.Since(begun)
		if took > slowest {
			return fmt.Errorf("a step took %v", took)
		}
		if old := g.long.Load(); int64(took) > old {
			g.long.CompareAndSwap(old, int64(took))
		}
	}
	return nil
}

// get pins the object of a random key: what is there, or a new version where there is none or a new
// one is wanted. nil: there is no space, or others are at it.
func (g *game) get(r *rand.Rand, anew bool) (*Entry, error) {
	n := r.IntN(gameKeys)
	k := keyOf(n)
	if !anew {
		if e, err := g.look(n, g.l.Find); e != nil || err != nil {
			return e, err
		}
	}
	unlock, ok, err := g.l.LockKey(k)
	if !ok || err != nil {
		return nil, err
	}
	defer unlock()
	if !anew {
		if e, err := g.look(n, g.l.FindLocked); e != nil || err != nil {
			return e, err
		}
	}
	units := 1 + r.Int64N(4)
	space, err := g.reserve((1 + r.Int64N(4)) * unit)
	if space == nil {
		return nil, err
	}
	abandon := func() {
		_ = g.l.guard(func() error {
			c := space.copying()
			if c.place.ID != 0 {
				err = g.f.free(c.place, space.Charge())
			}
			return err
		})
		space.Release()
	}
	if need := units*unit - space.Charge(); need > 0 && !space.Grow(need, gameLimits) {
		abandon()
		return nil, err
	} else if need < 0 && r.IntN(2) == 0 { // else Publish gives it back
		space.Shrink(-need)
	}
	id, err := g.l.NextPlace()
	if err != nil {
		return nil, err
	}
	o := g.object(n, id, units, r.IntN(1000))
	space.Writes(o.Place)
	if err := g.f.write(o); err != nil {
		return nil, err
	}
	if r.IntN(10) == 0 {
		abandon()
		return nil, err
	}
	e, err := g.l.Publish(space, o)
	if err != nil {
		return nil, fmt.Errorf("publishing: %w", err)
	}
	g.saw(n, id)
	return e, nil
}

// object is one of a key in a new version, which takes some units.
func (g *game) object(n int, id uint64, units int64, text int) Object {
	o := Object{Key: keyOf(n), Charge: units * unit, Size: units, Place: g.f.place(id, units), Checked: time.Now(),
		Name: "object " + strconv.Itoa(n) + strings.Repeat("x", text)}
	binary.BigEndian.PutUint64(o.Version[:], id)
	return o
}

// look finds an object and checks its bytes.
func (g *game) look(n int, find func(Key) (*Entry, error)) (*Entry, error) {
	seen := g.seen[n].Load()
	e, err := find(keyOf(n))
	if e == nil || err != nil {
		return nil, err
	}
	version := binary.BigEndian.Uint64(e.Version[:])
	switch err := g.f.check(e.Object); {
	case e.Key != keyOf(n):
		return nil, fmt.Errorf("instead of object %d there is %q", n, e.Name)
	case !strings.HasPrefix(e.Name, "object "+strconv.Itoa(n)) || version != e.Place.ID || e.Charge != e.Size*unit:
		return nil, fmt.Errorf("object %d is %+v", n, e.Object)
	case version < seen:
		return nil, fmt.Errorf("object %d is of version %d, after %d was seen", n, version, seen)
	case err != nil:
		return nil, fmt.Errorf("an object that was found: %w", err)
	}
	g.saw(n, version)
	return e, nil
}

func (g *game) saw(n int, version uint64) {
	for {
		old := g.seen[n].Load()
		if old >= version || g.seen[n].CompareAndSwap(old, version) {
			return
		}
	}
}

// reserve takes space, and evicts what it needs for it. nil: there is none.
func (g *game) reserve(charge int64) (*Reservation, error) {
	for range 10 {
		space, taken, err := g.l.Reserve(charge, gameLimits)
		if taken || err != nil {
			return space, err
		}
		if _, err := g.l.Evict(func() bool {
			bytes, files := g.l.Taken()
			return bytes <= gameLimits.Bytes-charge && files < gameLimits.Files
		}); err != nil {
			return nil, fmt.Errorf("evicting: %w", err)
		}
	}
	return nil, nil
}
