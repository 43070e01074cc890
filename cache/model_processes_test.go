//go:build linux

package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestProcessesAgainstModel drives three real processes, one call at a time,
// against a map: they open the same cache in all ways there are, close it, are killed and started
// again.
func TestProcessesAgainstModel(t *testing.T) {
	procs := make([]*modelProcess, 3) // they outlive the caches: to start one takes longer than all of its calls
	for k := range procs {
		procs[k] = &modelProcess{number: k}
		procs[k].start(t, nil)
	}
	t.Cleanup(func() {
		for _, p := range procs {
			p.kill()
		}
	})
	// where they are of two file systems, a cache preserved in the other one is copied
	roots := []string{inMemory(t), t.TempDir()}
	made := 0
	rapid.Check(t, func(r *rapid.T) {
		made++
		m := &model{procs: procs, dirs: make([]string, 2)}
		for k, root := range roots {
			m.dirs[k] = filepath.Join(root, fmt.Sprint(made))
			if err := os.Mkdir(m.dirs[k], 0o700); err != nil {
				r.Fatal(err)
			}
		}
		done := false
		defer func() {
			for _, p := range procs {
				if !done { // whatever state it is in
					p.kill()
					p.start(t, nil)
				}
				p.file, p.open, p.handle = nil, false, ""
			}
		}()
		m.begin(r)
		actions := map[string]func(*rapid.T){
			// rapid takes the first ones, by name, more often.
			"a put": m.put, "a get or fill": m.getOrFill, "an open": m.open, "close": m.close, "kill": m.kill,
			"open otherwise": m.openOtherwise, "old handle": m.oldHandle,
			"get": m.get, "view": m.view, "has": m.has, "freeze": m.freeze, "each": m.each,
			"preserve": m.preserve, "inspect": m.inspect, "": m.check,
		}
		for range 8 {
			r.Repeat(actions)
		}
		m.finish(r)
		done = true
	})
}

// TestPreserveRemovesHiddenName is one sequence of the above that is
// seldom drawn.
func TestPreserveRemovesHiddenName(t *testing.T) {
	for _, name := range []string{"load", "attach"} {
		t.Run(name, func(t *testing.T) {
			failAt(t, "tempfile.no O_TMPFILE", errTest)
			dir := inMemory(t)
			c := create(t, 10, &Options{Dir: dir})
			put(t, c, 1, "data")
			kept := filepath.Join(dir, "kept")
			must(t, preserve(c, kept, false))
			last := (*Cache)(nil)
			if name == "load" {
				last = ok(Load(kept, nil))(t)
			} else {
				last = ok(Attach(ok(c.Handle())(t), nil))(t)
			}
			must(t, c.Close())
			wantEntry(t, last, 1, "data")
			must(t, last.Close())
			if d := cmp.Diff([]string{"kept"}, allNames(t, dir)); d != "" {
				t.Error(d)
			}
		})
	}
}

// modelFile is a file that holds the entries: the cache itself, or a copy that Preserve made on
// another file system.
type modelFile struct {
	dir, uuid string
	sealed    bool
	unlinked  bool // its name was given to another file
	counters  modelCounters
}

type modelCounters struct{ stored, filled, refused, full int64 }

type modelEntry struct {
	offset int64
	data   []byte
}

// model is the expected state of the cache.
type model struct {
	procs    []*modelProcess
	dirs     []string
	n, max   int64
	path     string // "" for a nameless cache
	hidden   bool   // as on a file system without unnamed files
	keptPath string
	taken    bool // keptPath is

	file    *modelFile
	kept    *modelFile // what Preserve left at keptPath
	entries map[int64]modelEntry
	end     int64
	frozen  bool
	left    bool     // a process was killed that had the cache itself open: a hidden name may be left
	handles []Handle // that were ever issued
}

func (m *model) begin(r *rapid.T) {
	m.n = rapid.SampledFrom([]int64{1, 3, 8, 600, 3000}).Draw(r, "n")
	m.empty()
	if rapid.Bool().Draw(r, "limited") {
		m.max = m.end + rapid.Int64Range(0, 4000).Draw(r, "space")
	}
	if rapid.Bool().Draw(r, "named") {
		m.path = filepath.Join(m.dirs[0], "cache")
	}
	m.hidden = rapid.IntRange(0, 3).Draw(r, "hidden") == 3
	m.keptPath = filepath.Join(m.dirs[rapid.IntRange(0, 1).Draw(r, "where to preserve")], "kept")
	if m.taken = rapid.IntRange(0, 3).Draw(r, "taken") == 3; m.taken {
		if err := os.WriteFile(m.keptPath, []byte("another file"), 0o600); err != nil {
			r.Fatal(err)
		}
	}
	m.openAs(r, m.procs[0], "make")
}

// empty is a cache that was just made.
func (m *model) empty() {
	m.file, m.kept, m.left = &modelFile{dir: m.dirs[0]}, nil, false
	m.entries, m.end, m.frozen = map[int64]modelEntry{}, (4096+8*m.n+63)/64*64, false
}

// add is what Put does, and what it answers.
func (m *model) add(p *modelProcess, i int64, b []byte) bool {
	if _, ok := m.entries[i]; ok {
		p.counters.filled++
		return false
	}
	if m.frozen {
		p.counters.refused++
		return false
	}
	end := m.end + 64 + int64(len(b))
	if m.max > 0 && end > m.max {
		m.frozen = true
		p.counters.full++
		return false
	}
	m.entries[i] = modelEntry{m.end, b}
	m.end = (end + 63) / 64 * 64
	p.counters.stored++
	return true
}

// proc draws a process that has, or had, the cache open.
func (m *model) proc(r *rapid.T) *modelProcess {
	list := slices.DeleteFunc(slices.Clone(m.procs), func(p *modelProcess) bool { return p.file == nil })
	if len(list) == 0 {
		r.Skip()
	}
	// The open ones first, to which rapid tends.
	slices.SortStableFunc(list, func(a, b *modelProcess) int { return btoi(b.open) - btoi(a.open) })
	if list[0].open && rapid.IntRange(0, 9).Draw(r, "rather an open one") > 0 {
		list = slices.DeleteFunc(list, func(p *modelProcess) bool { return !p.open })
	}
	return rapid.SampledFrom(list).Draw(r, "process")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// slot draws a slot, the same few more often than others, and seldom one that is out of range.
func (m *model) slot(r *rapid.T) int64 {
	n := m.n
	return rapid.OneOf(rapid.SampledFrom([]int64{0, n - 1, min(1, n-1), n / 2, min(511, n-1), min(512, n-1)}),
		rapid.Int64Range(0, n-1),
		rapid.Custom(func(r *rapid.T) int64 {
			if rapid.IntRange(0, 5).Draw(r, "out of range") == 5 {
				return rapid.SampledFrom([]int64{-1, n, -1 << 63, 1 << 40}).Draw(r, "beyond")
			}
			return rapid.Int64Range(0, n-1).Draw(r, "slot")
		})).Draw(r, "slot")
}

func modelData(r *rapid.T) []byte {
	return rapid.SliceOfN(rapid.Byte(), 0, rapid.SampledFrom([]int{0, 300, 300, 5000}).Draw(r, "longest")).Draw(r,
		"data")
}

// ask makes a call of slots and checks the error that follows from them and from what p has open;
// ok is true if there is none.
func (m *model) ask(r *rapid.T, p *modelProcess, o modelCall, slots ...int64) (a modelReply, ok bool) {
	a = p.ask(r, o)
	want := ""
	switch {
	case slices.ContainsFunc(slots, func(i int64) bool { return i < 0 || i >= m.n }):
		want = "range"
	case !p.open:
		want = "closed"
	}
	if want != "" && a.Is != want {
		r.Fatalf("%s: the error is %q %q, not one of kind %q", o.Op, a.Is, a.Err, want)
	}
	return a, want == ""
}

// entry checks what was read of slot i.
func (m *model) entry(r *rapid.T, a modelReply, i int64, got []byte) {
	want, ok := m.entries[i]
	switch {
	case ok && (a.Err != "" || got == nil || !bytes.Equal(got, want.data)):
		r.Fatalf("slot %d: %q, %v, error %q; not %q", i, got, got == nil, a.Err, want.data)
	case !ok && (a.Is != "miss" || got != nil):
		r.Fatalf("slot %d: %q, error %q; not a miss", i, got, a.Err)
	}
}

func noError(r *rapid.T, a modelReply) {
	if a.Err != "" {
		r.Fatal(a.Err)
	}
}

func seldom(r *rapid.T) {
	if rapid.IntRange(0, 7).Draw(r, "seldom") < 7 {
		r.Skip()
	}
}

func (m *model) put(r *rapid.T) {
	p, i, b := m.proc(r), m.slot(r), modelData(r)
	if a, ok := m.ask(r, p, modelCall{Op: "put", Slot: i, Data: b}, i); ok {
		if want := m.add(p, i, b); a.Yes != want || a.Err != "" {
			r.Fatalf("stored %v, error %q; not %v", a.Yes, a.Err, want)
		}
	}
}

func (m *model) get(r *rapid.T) {
	m.getSlots(r, m.proc(r), m.slot(r))
}

func (m *model) getSlots(r *rapid.T, p *modelProcess, slots ...int64) {
	for _, i := range slots {
		if a, ok := m.ask(r, p, modelCall{Op: "get", Slot: i}, i); ok {
			m.entry(r, a, i, a.Data)
		}
	}
}

func (m *model) view(r *rapid.T) {
	p, i := m.proc(r), m.slot(r)
	if a, ok := m.ask(r, p, modelCall{Op: "view", Slot: i}, i); ok {
		m.entry(r, a, i, a.Data)
	}
}

func (m *model) has(r *rapid.T) {
	p, i := m.proc(r), m.slot(r)
	if a, ok := m.ask(r, p, modelCall{Op: "has", Slot: i}, i); ok {
		if _, want := m.entries[i]; a.Yes != want || a.Err != "" {
			r.Fatalf("slot %d: %v, error %q; not %v", i, a.Yes, a.Err, want)
		}
	}
}

func (m *model) getOrFill(r *rapid.T) {
	p, i, b := m.proc(r), m.slot(r), modelData(r)
	fails := rapid.IntRange(0, 4).Draw(r, "fails") == 4
	a, ok := m.ask(r, p, modelCall{Op: "get or fill", Slot: i, Data: b, Fails: fails}, i)
	_, filled := m.entries[i]
	switch {
	case !ok:
		if a.Calls > 0 {
			r.Fatal("filled what can't be kept")
		}
	case filled:
		if a.Calls > 0 {
			r.Fatal("filled twice")
		}
		m.entry(r, a, i, a.Data)
	case fails:
		if a.Is != "test" || a.Calls != 1 || a.Data != nil {
			r.Fatalf("%q, error %q, %d calls; not that of fill", a.Data, a.Err, a.Calls)
		}
	default:
		m.add(p, i, b)
		if a.Err != "" || a.Calls != 1 || a.Data == nil || !bytes.Equal(a.Data, b) {
			r.Fatalf("%q, error %q, %d calls; not %q", a.Data, a.Err, a.Calls, b)
		}
	}
}

func (m *model) freeze(r *rapid.T) {
	seldom(r)
	if a, ok := m.ask(r, m.proc(r), modelCall{Op: "freeze"}); ok {
		noError(r, a)
		m.frozen = true
	}
}

func (m *model) each(r *rapid.T) { m.eachOf(r, m.proc(r)) }

func (m *model) eachOf(r *rapid.T, p *modelProcess) {
	a, ok := m.ask(r, p, modelCall{Op: "each"})
	if !ok {
		return
	}
	noError(r, a)
	var want []Entry
	for i, e := range m.entries {
		want = append(want, Entry{Slot: i, Offset: e.offset, Length: int64(len(e.data))})
	}
	slices.SortFunc(want, func(a, b Entry) int { return int(a.Slot - b.Slot) })
	if d := cmp.Diff(want, a.Entries); d != "" {
		r.Fatalf("Each (- what was put):\n%s", d)
	}
}

// preserve keeps the cache at the one name that there is for it.
func (m *model) preserve(r *rapid.T) {
	seldom(r)
	m.preserveBy(r, m.proc(r), rapid.Bool().Draw(r, "overwrite"))
}

func (m *model) preserveBy(r *rapid.T, p *modelProcess, overwrite bool) {
	a, ok := m.ask(r, p, modelCall{Op: "preserve", Path: m.keptPath, Overwrite: overwrite})
	if !ok {
		return
	}
	if m.taken && !overwrite { // and nothing else has happened
		if a.Is != "exist" {
			r.Fatalf("preserved at a name that is taken: error %q", a.Err)
		}
		return
	}
	noError(r, a)
	m.taken, m.frozen, p.file.sealed = true, true, true
	info, err := Inspect(m.keptPath)
	if err != nil {
		r.Fatal(err)
	}
	f, dir := p.file, filepath.Dir(m.keptPath)
	if !sameDevice(r, f.dir, dir) || f.unlinked {
		if info.UUID == f.uuid {
			r.Fatal("a copy has the number of what was copied")
		}
		f = &modelFile{dir: dir, uuid: info.UUID, sealed: true}
	}
	if info.UUID != f.uuid {
		r.Fatalf("cache %s was preserved, and %s is there", f.uuid, info.UUID)
	}
	if m.kept != nil && m.kept != f {
		m.kept.unlinked = true
	}
	m.kept = f
}

func sameDevice(r *rapid.T, a, b string) bool {
	var x, y unix.Stat_t
	if err := errors.Join(unix.Stat(a, &x), unix.Stat(b, &y)); err != nil {
		r.Fatal(err)
	}
	return x.Dev == y.Dev
}

// inspect looks at the names from here, where no cache is open.
func (m *model) inspect(r *rapid.T) {
	for path, f := range map[string]*modelFile{m.path: m.file, m.keptPath: m.kept} {
		if path == "" || f == nil {
			continue
		}
		got, err := Inspect(path)
		if err != nil {
			r.Fatal(err)
		}
		want := Info{Path: path, Version: version, UUID: f.uuid, Slots: m.n, Entries: int64(len(m.entries)),
			Bytes: m.end, MaxBytes: m.max, Frozen: m.frozen, Preserved: f.sealed,
			Held: m.holder(f) != nil, Nameless: m.path == ""}
		got.DiskBytes, got.Modified, got.Durable = 0, time.Time{}, 0
		if d := cmp.Diff(want, got); d != "" {
			r.Fatalf("Inspect of %s (- what it is):\n%s", path, d)
		}
	}
}

// holder returns a process that has a file open.
func (m *model) holder(f *modelFile) *modelProcess {
	for _, p := range m.procs {
		if p.open && p.file == f {
			return p
		}
	}
	return nil
}

// check holds after every call: the numbers that each process sees, and the whole file as one of
// them does.
func (m *model) check(r *rapid.T) {
	var open []*modelProcess
	for _, p := range m.procs {
		if p.open {
			open = append(open, p)
			a := p.ask(r, modelCall{Op: "stats"})
			noError(r, a)
			c := p.counters
			want := Stats{Slots: m.n, Bytes: m.end, MaxBytes: m.max, Frozen: m.frozen, Preserved: p.file.sealed,
				Stored: c.stored, RefusedFilled: c.filled, RefusedFrozen: c.refused, RefusedFull: c.full}
			if d := cmp.Diff(want, a.Stats); d != "" {
				r.Fatalf("Stats of process %d (- what was done):\n%s", p.number, d)
			}
		}
	}
	if len(open) > 0 {
		m.checkBy(r, rapid.SampledFrom(open).Draw(r, "checks"))
	}
}

func (m *model) checkBy(r *rapid.T, p *modelProcess) {
	a := p.ask(r, modelCall{Op: "check"})
	noError(r, a)
	want := &Report{Slots: m.n, FilledSlots: int64(len(m.entries)), Empty: m.n - int64(len(m.entries)),
		LiveBytes: m.end - (4096+8*m.n+63)/64*64,
		Preserved: p.file.sealed}
	for _, e := range m.entries {
		want.Bytes += int64(len(e.data))
	}
	if d := cmp.Diff(want, a.Report); d != "" {
		r.Fatalf("Check of process %d (- what was put):\n%s", p.number, d)
	}
}

// finish preserves the cache, and has all load what was preserved, one of them after it was killed.
func (m *model) finish(r *rapid.T) {
	if m.kept == nil {
		p := m.procs[rapid.IntRange(0, 2).Draw(r, "preserves")]
		if !p.open {
			m.openBy(r, p)
		}
		m.preserveBy(r, p, true)
	}
	killed := rapid.IntRange(0, 2).Draw(r, "killed")
	for k, p := range m.procs {
		if k == killed {
			m.killIt(r, p, nil)
		} else if p.open {
			m.closeIt(r, p)
		}
	}
	slots := make([]int64, m.n)
	for i := range slots {
		slots[i] = int64(i)
	}
	for _, p := range m.procs {
		m.openAs(r, p, "load")
		m.getSlots(r, p, slots...)
		m.eachOf(r, p)
	}
	m.check(r)
	m.inspect(r)
	if err := Remove(m.keptPath, false); err == nil {
		r.Fatal("removed what is in use")
	}
	for _, p := range m.procs {
		m.closeIt(r, p)
	}
	for path := range map[string]bool{m.path: true, m.keptPath: true} {
		if path != "" {
			if err := Remove(path, false); err != nil {
				r.Fatal(err)
			}
		}
	}
	for _, dir := range m.dirs {
		removed, err := GC(dir, false)
		if err != nil {
			r.Fatal(err)
		}
		if len(removed) > 0 && !(m.hidden && m.path == "" && m.left) {
			r.Fatalf("GC found %q", removed)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			r.Fatalf("left: %v, %v", left, err)
		}
	}
}
