//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/lockfile"
	"leat/ndarray"
)

func TestForgedStaleForeignHandles(t *testing.T) {
	run, _ := isolate(t)
	s := newSharer(t, nil)
	named := newSharer(t, &Options{Place: Named})
	a := must(s.Put(numbers(1<<20, 1), 1024, 1024))(t)
	small := must(s.Put(numbers(1000, 1)))(t)
	small2 := must(s.Put(numbers(1000, 1)))(t)
	file := must(named.Put(numbers(1<<20, 1)))(t)
	parse := func(a *Array) handle { return must(parseHandle(must(a.Handle())(t)))(t) }
	edit := func(h handle, f func(h *handle)) Handle { f(&h); return h.text() }
	devnull := must(os.Open("/dev/null"))(t)
	defer devnull.Close()
	plain := must(os.Create(filepath.Join(t.TempDir(), "plain")))(t)
	defer plain.Close()
	foreignFD := must(unix.MemfdCreate("other", unix.MFD_CLOEXEC))(t)
	defer unix.Close(foreignFD)
	// One that can still shrink.
	shrinks := must(unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	defer unix.Close(shrinks)
	check(t, unix.Ftruncate(shrinks, 1<<20))
	// One that has no tag.
	empty := must(unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	defer unix.Close(empty)
	check(t, unix.Ftruncate(empty, 1<<20))
	check(t, addSeals(empty, sealsOpen))
	tiny := must(unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	defer unix.Close(tiny)
	check(t, addSeals(tiny, sealsOpen))
	// A link and a arraysDir where a named array should be.
	var linkID, dirID ident = newIdent(), newIdent()
	check(t, os.Symlink("/etc/passwd", filepath.Join(run, arraysDir, fileName(linkID))))
	check(t, os.Mkdir(filepath.Join(run, arraysDir, fileName(dirID)), 0o700))

	h, hs, hf := parse(a), parse(small), parse(file)
	good, goodSmall, goodFile := h.text(), hs.text(), hf.text()
	cases := map[string]struct {
		h    Handle
		want error
	}{
		"not a handle":            {"hello", errHandle},
		"nothing":                 {"", errHandle},
		"an inline one of junk":   {"leat-npy1:AAAA", errHandle},
		"another boot":            {edit(h, func(h *handle) { h.boot[3]++ }), ErrForeign},
		"another id":              {edit(h, func(h *handle) { h.id[0]++ }), ErrStale},
		"a larger size":           {edit(h, func(h *handle) { h.size += pageSize }), errHandle},
		"a smaller size":          {edit(h, func(h *handle) { h.size -= pageSize }), errHandle},
		"the header as data":      {edit(h, func(h *handle) { h.view.offset -= 1 }), errHandle},
		"the tag as data":         {edit(h, func(h *handle) { h.view.offset += 1 }), errHandle},
		"strides out of it":       {edit(h, func(h *handle) { h.view.strides = []int{1025, 1} }), errHandle},
		"another descriptor":      {edit(h, func(h *handle) { h.fd = int(plain.Fd()) }), ErrStale},
		"a device":                {edit(h, func(h *handle) { h.fd = int(devnull.Fd()) }), ErrStale},
		"another's memfd":         {edit(h, func(h *handle) { h.fd = foreignFD }), ErrStale},
		"a memfd that shrinks":    {edit(h, func(h *handle) { h.fd = shrinks }), ErrStale},
		"a memfd without a tag":   {edit(h, func(h *handle) { h.fd = empty }), errHandle},
		"a memfd without a byte":  {edit(h, func(h *handle) { h.fd = tiny }), errHandle},
		"a closed descriptor":     {edit(h, func(h *handle) { h.fd = 9999 }), ErrStale},
		"no process":              {edit(h, func(h *handle) { h.pid = 1<<22 + 1 }), ErrStale},
		"another process":         {edit(h, func(h *handle) { h.pid = os.Getppid() }), nil},
		"an arena's entry":        {edit(h, func(h *handle) { h.base = 4096 }), ErrStale},
		"the whole of an arena":   {edit(hs, func(h *handle) { h.base = 0 }), ErrStale},
		"within an entry":         {edit(hs, func(h *handle) { h.base += 64 }), errHandle},
		"between entries":         {edit(hs, func(h *handle) { h.base += 1 }), errHandle},
		"beyond an arena":         {edit(hs, func(h *handle) { h.base = 1 << 40 }), errHandle},
		"the end of an arena":     {edit(hs, func(h *handle) { h.base = arenaSize }), errHandle},
		"an entry of another id":  {edit(hs, func(h *handle) { h.id[5]++ }), ErrStale},
		"an entry's neighbour":    {edit(hs, func(h *handle) { h.base = parse(small2).base }), ErrStale},
		"an entry of more bytes":  {edit(hs, func(h *handle) { h.size += 64; h.view.shape = []int{1064} }), errHandle},
		"a named one of no file":  {edit(hf, func(h *handle) { h.id[1]++ }), ErrStale},
		"a named one elsewhere":   {edit(hf, func(h *handle) { h.root = rootTemp }), ErrStale},
		"a named one that's long": {edit(hf, func(h *handle) { h.size += pageSize }), errHandle},
		"a link":                  {edit(hf, func(h *handle) { h.id = linkID }), ErrForeign},
		"a arraysDir":             {edit(hf, func(h *handle) { h.id = dirID }), ErrForeign},
		"a named memfd":           {edit(h, func(h *handle) { h.kind, h.root = kindFile, rootRun }), ErrStale},
		"a user's file":           {edit(h, func(h *handle) { h.kind, h.path = kindUser, "/etc/passwd" }), errOutsideRoots},
	}
	// From a process that knows the arrays and from one that doesn't.
	other := newSharer(t, nil)
	for _, h := range []Handle{good, goodSmall, goodFile} {
		must(other.Attach(h, ReadOnly))(t)
	}
	check(t, must(newSharer(t, nil).Attach(good, ReadOnly))(t).Close())
	maps := mappings(t)
	for name, c := range cases {
		fresh := must(Open(nil))(t)
		for i, from := range []*Pool{s, other, fresh} {
			for _, mode := range []Mode{ReadOnly, ReadWrite, CopyOnWrite} {
				_, err := from.Attach(c.h, mode)
				known := mode == ReadOnly && i < 2 && errors.Is(err, errHandle) // it is compared with what is mapped
				sealed := mode == ReadWrite && errors.Is(err, errSealed)
				if err == nil || c.want != nil && !errors.Is(err, c.want) && !known && !sealed {
					t.Errorf("%s (%s): %v", name, mode, err)
				}
			}
		}
		check(t, fresh.Close())
	}
	fresh := must(Open(nil))(t)
	_, _ = fresh.Attach(cases["a link"].h, ReadOnly)
	_, _ = fresh.Attach(cases["a named one elsewhere"].h, ReadOnly)
	before := descriptors(t)
	for _, c := range cases {
		_, _ = fresh.Attach(c.h, ReadOnly)
		_, _ = fresh.Attach(c.h, CopyOnWrite)
	}
	if n := descriptors(t) - before; n != 0 {
		t.Errorf("%d descriptors leaked", n)
	}
	check(t, fresh.Close())
	if n := mappings(t) - maps; n != 0 {
		t.Errorf("%d mappings leaked", n)
	}
	for _, h := range []Handle{good, goodSmall, goodFile} {
		check(t, must(other.Attach(h, ReadOnly))(t).Close())
	}
}

// mappings is how many mappings of files this process has.
func mappings(t testing.TB) int {
	t.Helper()
	m, err := mappedFiles(os.Getpid())
	check(t, err)
	return len(m)
}

// A maker may write to the tags in its arena after another process has mapped it, and give out
// handles to match.
func TestATagThatItsMakerChangedLeadsNowhere(t *testing.T) {
	isolate(t)
	s := newSharer(t, &Options{Place: Memfd})
	first := must(s.Put(numbers(100, 1)))(t)
	for name, change := range map[string]func(g *tag){
		"nothing":                 func(*tag) {},
		"a size beyond the arena": func(g *tag) { g.size = arenaSize },
		"a size beyond all":       func(g *tag) { g.size = 1<<63 - 1 },
		"a negative size":         func(g *tag) { g.size = -64 },
		"data beyond the entry":   func(g *tag) { g.data = g.size + 1 },
		"more data than fit":      func(g *tag) { g.length = g.size - g.data + 1 },
		"data that overflow":      func(g *tag) { g.length = 1<<63 - 1 },
		"negative data":           func(g *tag) { g.data = -64 },
		"no entry":                func(g *tag) { g.kind = kindWhole },
	} {
		known := newSharer(t, nil)
		must(known.Attach(must(first.Handle())(t), ReadOnly))(t)
		a := must(s.Put(numbers(100, 2)))(t)
		g := must(parseTag(a.obj.bytes()))(t)
		change(&g)
		g.encode(a.obj.bytes())
		h := a.obj.addr
		h.view, h.size = a.view, g.size
		for from, other := range map[string]*Pool{"one that knows the arena": known,
			"one that does not": newSharer(t, nil)} {
			for _, mode := range []Mode{ReadOnly, CopyOnWrite} {
				b, err := other.Attach(h.text(), mode)
				if name == "nothing" {
					if check(t, err); b.digest() != a.digest() {
						t.Error("it arrived wrong")
					}
				} else if !errors.Is(err, errHandle) && !errors.Is(err, ErrStale) {
					t.Errorf("%s, from %s (%s): %v", name, from, mode, err)
				}
			}
		}
	}
	// The size of a whole file, changed between the look at the file and the mapping.
	mem := alignedCopy(make([]byte, 3*pageSize))
	g := tag{kind: kindWhole, id: newIdent(), size: int64(len(mem)) + pageSize, data: pageSize, length: 2*pageSize + 1,
		state: stateSealed}
	copy(mem[2*pageSize:], g.bytes())
	if o, err := objectIn(&segment{mem: mem}, &handle{kind: kindFile, id: g.id, size: g.size}); !errors.Is(err,
		errHandle) {
		t.Errorf("%v, %v", o, err)
	}
}

func TestHeldNamedArrayIsNotStale(t *testing.T) {
	run, _ := isolate(t)
	s := newSharer(t, &Options{Place: Named})
	a := must(s.Put(numbers(1<<17, 1)))(t)
	h := must(parseHandle(must(a.Handle())(t)))(t)
	h.id = newIdent()
	name := filepath.Join(run, arraysDir, fileName(h.id))
	check(t, os.WriteFile(name, nil, 0o600))
	f := must(os.Open(name))(t)
	defer f.Close()
	check(t, fdio.Flock(int(f.Fd()), unix.LOCK_EX))
	_, err := s.Attach(h.text(), ReadOnly)
	if !errors.Is(err, lockfile.ErrLocked) || errors.Is(err, ErrStale) {
		t.Error(err)
	}
}

func TestRandomChangesOfAHandleNeverHarm(t *testing.T) {
	isolate(t)
	s, other := newSharer(t, nil), newSharer(t, nil)
	var seeds []string
	for _, n := range []int{100, 1 << 17} {
		seeds = append(seeds, string(must(must(s.Put(numbers(n, 1)))(t).Handle())(t)))
	}
	seeds = append(seeds, string(must(s.Pack([]float32{1, 2}))(t)))
	r := rand.New(rand.NewPCG(5, 6))
	rounds := 20_000
	if !testing.Short() {
		rounds = 300_000
	}
	const letters = "0123456789:/,-abcdefu'<|@+"
	accepted := 0
	for range rounds {
		b := []byte(seeds[r.IntN(len(seeds))])
		for range 1 + r.IntN(3) {
			i := r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[i] = letters[r.IntN(len(letters))]
			case 1:
				b = append(b[:i], b[i+1:]...)
			default:
				b = append(b[:i], append([]byte{letters[r.IntN(len(letters))]}, b[i:]...)...)
			}
		}
		a, err := other.Attach(Handle(b), ReadOnly)
		if err != nil {
			continue
		}
		accepted++
		a.digest() // every element can be read
		check(t, a.Close())
	}
	t.Logf("%d of %d were good", accepted, rounds)
}

func TestFilesOfOtherUsersStay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	run, _ := isolate(t)
	s := newSharer(t, &Options{Place: Named})
	a := must(s.Put(numbers(1<<17, 1)))(t)
	h := must(parseHandle(must(a.Handle())(t)))(t)
	// Another user's file under a name that is asked for.
	h.id = newIdent()
	name := filepath.Join(run, arraysDir, fileName(h.id))
	content := must(os.ReadFile(filepath.Join(run, arraysDir, fileName(a.obj.addr.id))))(t)
	check(t, os.WriteFile(name, content, 0o666))
	check(t, os.Chown(name, 12345, 12345))
	if _, err := s.Attach(h.text(), ReadOnly); !errors.Is(err, ErrForeign) {
		t.Errorf("attached: %v", err)
	}
	if removed := must(GC(nil, false))(t); len(removed) != 0 {
		t.Errorf("GC removed %v", removed)
	}
	must(os.Stat(name))(t)
	// A memfd of another user.
	fd := must(unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	defer unix.Close(fd)
	check(t, unix.Ftruncate(fd, int64(len(content))))
	check(t, pwriteAll(fd, content, 0))
	check(t, addSeals(fd, sealsOpen))
	check(t, unix.Fchown(fd, 12345, 12345))
	m := handle{kind: kindMemfd, boot: h.boot, id: a.obj.addr.id, size: h.size, view: h.view, pid: os.Getpid(), fd: fd}
	if _, err := newSharer(t, nil).Attach(m.text(), ReadOnly); !errors.Is(err, ErrForeign) {
		t.Errorf("attached: %v", err)
	}
	// A arraysDir of another user, or open to others.
	for _, spoil := range []func(dir string) error{
		func(dir string) error { return os.Chown(dir, 12345, 12345) },
		func(dir string) error { return os.Chmod(dir, 0o755) },
	} {
		dir := filepath.Join(t.TempDir(), "run")
		check(t, os.Mkdir(dir, 0o700))
		check(t, spoil(dir))
		setenv(t, "LEAT_RUNTIME_DIR", dir)
		if _, err := newSharer(t, &Options{Place: Named}).Put([]byte{1}); err == nil || !strings.Contains(err.Error(),
			dir) {
			t.Errorf("made an array in %s: %v", dir, err)
		}
		if list := must(os.ReadDir(dir))(t); len(list) != 0 {
			t.Errorf("%v", list)
		}
	}
}

func TestModesOfFiles(t *testing.T) {
	run, temp := isolate(t)
	for _, place := range []Place{Memfd, Named, Temp} {
		s := newSharer(t, &Options{Place: place})
		for _, a := range []*Array{must(s.Put(numbers(1<<17, 1)))(t), must(s.New(ndarray.Int8, 5))(t)} {
			path, _, err := a.File()
			check(t, err)
			if m := must(os.Stat(path))(t).Mode().Perm(); m&0o177 != 0 {
				t.Errorf("%v: mode %o", place, m)
			}
		}
	}
	for _, dir := range []string{run, filepath.Join(run, arraysDir),
		filepath.Join(temp, fmt.Sprintf("leat-%d", os.Geteuid()))} {
		if m := must(os.Stat(dir))(t).Mode().Perm(); m != 0o700 {
			t.Errorf("%s: mode %o", dir, m)
		}
	}
}
