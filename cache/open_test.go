//go:build linux

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestNamedCache(t *testing.T) {
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		failAt(t, way, errTest)
		dir := t.TempDir()
		path := filepath.Join(dir, "named")
		for run := range int64(5) {
			c := ok(Open(path, 10, nil))(t)
			put(t, c, run, string(content(run)))
			for i := range run + 1 {
				wantEntry(t, c, i, string(content(i)))
			}
			wantMiss(t, c, run+1)
			if rep := check(t, c); !rep.OK() || rep.FilledSlots != run+1 || rep.DeadBytes != 0 || c.path != path {
				t.Errorf("%+v, %s", rep, c.path)
			}
			must(t, c.Close())
		}
		if diff := cmp.Diff([]string{"named"}, allNames(t, dir)); diff != "" {
			t.Error(diff)
		}
		if fi := ok(os.Stat(path))(t); fi.Mode() != 0o600 {
			t.Errorf("mode %v", fi.Mode())
		}
	}
}

func TestConcurrentOpen(t *testing.T) {
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		failAt(t, way, errTest)
		for round := range 20 {
			path := filepath.Join(t.TempDir(), "named")
			var mu sync.Mutex
			ids := map[string]bool{}
			var wg sync.WaitGroup
			for k := range int64(4) {
				wg.Go(func() {
					c, err := Open(path, 10, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := c.Put(k, []byte("entry")); err != nil {
						t.Error(err)
					}
					mu.Lock()
					ids[c.UUID()] = true
					mu.Unlock()
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if len(ids) != 1 || len(allNames(t, filepath.Dir(path))) != 1 {
				t.Fatalf("round %d: %d caches, %q", round, len(ids), allNames(t, filepath.Dir(path)))
			}
		}
	}
}

func TestLateSweepKeepsNewFile(t *testing.T) {
	dir := t.TempDir()
	sweeper, found := -1, ""
	faults(t, func(point string) error {
		switch {
		case point == "tempfile.no O_TMPFILE":
			return errTest
		case point == "tempfile.created" && sweeper < 0: // it locks the first file before its maker does
			found = filepath.Join(dir, allNames(t, dir)[0])
			sweeper = ok(unix.Open(found, unix.O_RDWR, 0))(t)
			if !ok(lock(sweeper, lockHold, exclusive))(t) {
				t.Error("not locked")
			}
		case point == "cache.formatted": // and only now goes on, after a second one was made
			if err := unix.Unlink(found); err != nil && !errors.Is(err, unix.ENOENT) {
				t.Error(err)
			}
		}
		return nil
	})
	c, err := Open(filepath.Join(dir, "named"), 10, nil)
	must(t, err)
	must(t, c.Close())
	must(t, unix.Close(sweeper))
	if diff := cmp.Diff([]string{"named"}, allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestErrMismatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "named")
	must(t, ok(Open(path, 10, &Options{MaxBytes: 10000}))(t).Close())
	_, err := Open(path, 11, nil)
	wantErr(t, err, ErrMismatch)
	if !strings.Contains(fmt.Sprint(err), "10 slots, expected 11") {
		t.Error(err)
	}
	_, err = Open(path, 10, &Options{MaxBytes: 20000})
	wantErr(t, err, ErrMismatch)
	if !strings.Contains(fmt.Sprint(err), "10000, expected 20000") {
		t.Error(err)
	}
	c := ok(Open(path, 10, &Options{MaxBytes: 10000}))(t)
	must(t, c.Close())
	c = ok(Open(path, 10, nil))(t)
	if s := stats(t, c); s.MaxBytes != 10000 {
		t.Errorf("%+v", s)
	}
	must(t, c.Close())
}

func TestOpenOtherFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, ok(Open(at("good"), 10, nil))(t).Close())
	must(t, os.Symlink("good", at("link")))
	must(t, os.Symlink("nowhere", at("dangling")))
	must(t, os.Mkdir(at("folder"), 0o700))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	must(t, ok(Open(at("open to all"), 10, nil))(t).Close())
	must(t, os.Chmod(at("open to all"), 0o666))
	tests := map[string]struct {
		want error
		text string
	}{
		"link": {ErrForeign, "symbolic link"}, "dangling": {ErrForeign, "symbolic link"},
		"folder": {ErrFormat, "regular"}, "fifo": {ErrFormat, "regular"},
		"open to all": {ErrForeign, "mode 0666"}, "missing/named": {fs.ErrNotExist, "directory"},
		"good/named": {unix.ENOTDIR, "directory"},
		"folder/":    {nil, "names a directory"}, "": {nil, "empty file name"},
		strings.Repeat("x", 300): {unix.ENAMETOOLONG, "too long"},
		"/proc/self/named":       {ErrRemote, "not a local file system"},
	}
	if os.Geteuid() == 0 {
		must(t, ok(Open(at("another's"), 10, nil))(t).Close())
		must(t, os.Chown(at("another's"), 12345, 12345))
		tests["another's"] = struct {
			want error
			text string
		}{ErrForeign, "user 12345"}
	}
	before := allNames(t, dir)
	for name, test := range tests {
		path := at(name)
		if name == "" || name[0] == '/' {
			path = name
		} else if strings.HasSuffix(name, "/") {
			path += "/"
		}
		_, err := Open(path, 10, nil)
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(),
			test.text) || name != "" && !strings.Contains(err.Error(), filepath.Dir(path)) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	_, err := Create(10, &Options{Dir: "/proc/self", AllowRemote: true})
	if err == nil || !strings.Contains(err.Error(), "/proc/self") {
		t.Errorf("%v", err)
	}
	_, err = Create(10, &Options{Dir: "/proc/self"})
	wantErr(t, err, ErrRemote)
	_, err = Create(10, &Options{Dir: "/proc/missing"})
	if err == nil || !strings.Contains(err.Error(), "/proc/missing") {
		t.Errorf("%v", err)
	}
}

// pfio, stage and namespace create theirs too.
func TestCreateMakesDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "deep")
	c := ok(Create(4, &Options{Dir: dir}))(t)
	put(t, c, 1, "entry")
	wantEntry(t, c, 1, "entry")
	must(t, c.Close())
	if st := ok(os.Stat(dir))(t); st.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v", st.Mode())
	}
	_, err := Create(0, &Options{Dir: dir + "/wrong"})
	if _, err1 := os.Stat(dir + "/wrong"); err == nil || !errors.Is(err1, fs.ErrNotExist) {
		t.Errorf("wrong options made a directory: %v, %v", err, err1)
	}
}

func TestDir(t *testing.T) {
	base := t.TempDir()
	set := func(t *testing.T, vars map[string]string) {
		for _, name := range []string{"LEAT_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "SLURM_TMPDIR", "TMPDIR"} {
			t.Setenv(name, vars[name])
		}
	}
	user := fmt.Sprintf("leat-%d", os.Geteuid())
	for name, test := range map[string]struct {
		vars map[string]string
		want string // "" is an error
	}{
		"the variable": {map[string]string{"LEAT_CACHE_DIR": base + "/named/deep", "XDG_CACHE_HOME": base + "/x",
			"HOME": base}, "named/deep"},
		"XDG":            {map[string]string{"XDG_CACHE_HOME": base + "/x", "HOME": base}, "x/leat"},
		"a relative XDG": {map[string]string{"XDG_CACHE_HOME": "x", "HOME": base}, ".cache/leat"},
		"home":           {map[string]string{"HOME": base}, ".cache/leat"},
		"home not local": {map[string]string{"HOME": "/proc/self", "TMPDIR": base}, user},
		"home not local, job": {map[string]string{"XDG_CACHE_HOME": "/sys/kernel", "SLURM_TMPDIR": base + "/job",
			"TMPDIR": base}, "job"},
		"the variable remote": {map[string]string{"LEAT_CACHE_DIR": "/proc/self", "HOME": base}, ""},
		"nothing local":       {map[string]string{"HOME": "/proc/self", "TMPDIR": "/proc/self"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set(t, test.vars)
			got, err := Dir()
			if test.want == "" {
				if err == nil {
					t.Errorf("%s", got)
				}
				return
			}
			if err != nil || got != filepath.Join(base, test.want) {
				t.Errorf("%s, %v", got, err)
			}
			c := ok(Create(3, nil))(t)
			put(t, c, 1, "entry")
			must(t, c.Close())
			if left := allNames(t, got); slices.ContainsFunc(left, isNamelessName) {
				t.Errorf("left: %q", left)
			}
		})
	}
	set(t, map[string]string{"HOME": "/proc/self", "TMPDIR": base})
	must(t, os.Chmod(filepath.Join(base, user), 0o777))
	_, err := Dir()
	wantErr(t, err, ErrForeign)
}

// restamp makes a closed named cache look as one of another boot.
func restamp(t *testing.T, path string) {
	t.Helper()
	f := ok(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	h, _, _, err := readHeader(int(f.Fd()))
	must(t, err)
	h.boot[3]++
	must(t, ignore(f.WriteAt(h.encode()[:tailAt], 0)))
}

func TestReboot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "named")
	c := ok(Open(path, 10, nil))(t)
	for i := range int64(3) {
		put(t, c, i, strings.Repeat("x", 1000))
	}
	offset := slotOf(t, c, 1)
	base := c.h.base()
	must(t, c.Close())
	restamp(t, path)
	// Page 0 came to the disk before the records did; one of the records came in part.
	f := ok(os.OpenFile(path, os.O_RDWR, 0))(t)
	must(t, ignore(f.WriteAt(le.AppendUint64(nil, uint64(base)), tailAt)))
	must(t, ignore(f.WriteAt(make([]byte, 500), offset+recordHead+300)))
	must(t, f.Close())
	c = ok(Open(path, 10, &Options{Verify: VerifyNever}))(t)
	wantMiss(t, c, 1)
	put(t, c, 5, strings.Repeat("y", 5000))
	put(t, c, 1, "mended")
	wantEntry(t, c, 0, strings.Repeat("x", 1000))
	wantEntry(t, c, 1, "mended")
	wantEntry(t, c, 2, strings.Repeat("x", 1000))
	if rep := check(t, c); !rep.OK() || rep.FilledSlots != 4 {
		t.Errorf("%+v", rep)
	}
	damage(t, c, slotOf(t, c, 0)+recordHead+7) // after it was touched
	wantMiss(t, c, 0)
	must(t, c.Close())
}

func slotOf(t testing.TB, c *Cache, i int64) (offset int64) {
	t.Helper()
	must(t, ignore(c.guard(func() error { offset = c.loadSlot(i); return nil })))
	return offset
}

// damage flips a bit of the file.
func damage(t testing.TB, c *Cache, at int64) {
	t.Helper()
	f := ok(c.File())(t)
	defer f.Close()
	var b [1]byte
	must(t, ignore(f.ReadAt(b[:], at)))
	b[0] ^= 4
	must(t, ignore(f.WriteAt(b[:], at)))
}

func TestDurability(t *testing.T) {
	for _, d := range []Durability{DurabilityNone, DurabilityBatch, DurabilityEach} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "named")
			c := ok(Open(path, 3000, &Options{Durability: d}))(t)
			flushes := 0
			faults(t, func(point string) error {
				if point == "cache.flush" {
					flushes++
				}
				return nil
			})
			puts := map[Durability]int64{DurabilityEach: 20}[d]
			if puts == 0 {
				puts = batchEntries + 10
			}
			for i := range puts {
				put(t, c, i, "entry")
			}
			if want := []int{0, 1, 20}[d]; flushes != want {
				t.Errorf("%d flushes, not %d", flushes, want)
			}
			// Who joins may ask for more, and what the cache was made with holds for all.
			other := ok(Open(path, 3000, nil))(t)
			flushes = 0
			put(t, other, 2500, "entry")
			must(t, other.Close())
			if want := []int{0, 1, 1}[d]; flushes != want {
				t.Errorf("%d flushes, not %d", flushes, want)
			}
			failAt(t, "cache.flush", errTest)
			_, errPut := c.Put(2000, nil)
			errClose := c.Close()
			if errors.Is(errPut, errTest) != (d == DurabilityEach) || errors.Is(errClose,
				errTest) != (d == DurabilityBatch) {
				t.Errorf("%v, %v", errPut, errClose)
			}
		})
	}
}

func TestBadHandles(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 1, "entry")
	text := ok(c.Handle())(t)
	h := ok(parseHandle(text))(t)
	if strings.Contains(string(text), "/dev") || strings.Contains(string(text), "tmp") {
		t.Errorf("%s holds a path", text)
	}
	directory := ok(unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(directory)
	plain := ok(os.Create(filepath.Join(t.TempDir(), "plain")))(t)
	defer plain.Close()
	must(t, plain.Truncate(1<<20))
	another := create(t, 10, nil)
	for name, test := range map[string]struct {
		change func(h *handle)
		want   error
	}{
		"another boot":    {func(h *handle) { h.boot[0]++ }, ErrForeign},
		"no such process": {func(h *handle) { h.pid = 1<<31 - 1 }, ErrGone},
		"no such file":    {func(h *handle) { h.fd = 1 << 20 }, ErrGone},
		"a directory":     {func(h *handle) { h.fd = directory }, ErrGone},
		"another file":    {func(h *handle) { h.fd = int(plain.Fd()) }, ErrGone},
		"another cache":   {func(h *handle) { h.fd = another.fd }, ErrGone},
		"another's id":    {func(h *handle) { h.uuid[0]++ }, ErrGone},
		"standard input":  {func(h *handle) { h.fd = 0 }, ErrGone},
	} {
		forged := h
		test.change(&forged)
		if _, err := Attach(forged.text(), nil); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []string{"", "x", "leat-cache1:", string(text) + " ", " " + string(text),
		strings.ToUpper(string(text)), strings.Replace(string(text), "/", "/+", 1),
		strings.Replace(string(text), "/", "/0", 1), strings.Replace(string(text), "/", "/-", 1),
		strings.Replace(string(text), "/", "", 1),
		"leat-cache1:../../x:1/2:y", strings.Repeat("leat-cache1:", 100),
		strings.Replace(string(text), "cache1", "cache2", 1)} {
		if _, err := Attach(Handle(s), nil); !errors.Is(err, errHandle) {
			t.Errorf("%.60q: %v", s, err)
		}
	}
	if _, err := AttachFile(plain, nil); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
	if _, err := Attach(text, &Options{MaxBytes: 1e6}); err == nil {
		t.Error("MaxBytes was taken")
	}
	gone := ok(Create(3, &Options{Dir: inMemory(t)}))(t)
	text = ok(gone.Handle())(t)
	must(t, gone.Close())
	_, err := Attach(text, nil)
	wantErr(t, err, ErrGone)
	if os.Geteuid() == 0 {
		must(t, unix.Fchown(another.fd, 12345, 12345))
		_, err := Attach(ok(another.Handle())(t), nil)
		wantErr(t, err, ErrForeign)
		f := ok(another.File())(t)
		_, err = AttachFile(f, nil)
		wantErr(t, err, ErrForeign)
		must(t, f.Close())
	}
}

func FuzzHandle(f *testing.F) {
	f.Add("leat-cache1:000102030405060708090a0b0c0d0e0f:12/3:000102030405060708090a0b0c0d0e0f")
	f.Fuzz(func(t *testing.T, s string) {
		if h, err := parseHandle(Handle(s)); err == nil && h.text() != Handle(s) {
			t.Errorf("%q is read as %q", s, h.text())
		}
	})
}

func TestAttachFile(t *testing.T) {
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		failAt(t, way, errTest)
		c := create(t, 10, nil)
		must(t, ignore(c.Put(1, content(1))))
		f := ok(c.File())(t)
		out, err := passFile(f)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		must(t, f.Close())
		wantEntry(t, c, 2, string(content(2)))
		must(t, c.Freeze(t.Context())) // its locks are not ours
	}
}

func TestFileWithoutProc(t *testing.T) {
	c := create(t, 10, nil)
	f := ok(c.File())(t)
	defer f.Close()
	failAt(t, "cache.no proc", fs.ErrNotExist)
	_, err := c.File()
	wantErr(t, err, errors.ErrUnsupported)
	_, err = AttachFile(f, nil)
	wantErr(t, err, errors.ErrUnsupported)
}

func TestCopyDuringPuts(t *testing.T) {
	dir := t.TempDir()
	c := ok(Open(filepath.Join(dir, "a"), 64, nil))(t)
	defer c.Close()
	for i := range int64(4) {
		put(t, c, i, fmt.Sprint("entry ", i))
	}
	page := ok(os.ReadFile(filepath.Join(dir, "a")))(t)[:pageSize] // that is copied first
	for i := range int64(4) {
		put(t, c, 10+i, fmt.Sprint("entry ", 10+i))
	}
	rest := ok(os.ReadFile(filepath.Join(dir, "a")))(t)
	must(t, os.WriteFile(filepath.Join(dir, "b"), append(page, rest[pageSize:]...), 0o600))
	d := ok(Open(filepath.Join(dir, "b"), 64, nil))(t)
	defer d.Close()
	put(t, d, 30, "new one")
	put(t, d, 31, "new two")
	for i := range int64(4) {
		wantEntry(t, d, i, fmt.Sprint("entry ", i))
		wantEntry(t, d, 10+i, fmt.Sprint("entry ", 10+i))
	}
	if rep := check(t, d); !rep.OK() || rep.FilledSlots != 10 {
		t.Errorf("%+v", rep)
	}
}

func TestReopenAfterFailedPuts(t *testing.T) {
	path := filepath.Join(inMemory(t), "named")
	for run := range int64(3) {
		c := ok(Open(path, 64, nil))(t)
		before := stats(t, c).Bytes
		writes := 0
		faults(t, func(p string) error {
			switch p {
			case "cache.short write":
				return errTest
			case "cache.write":
				if writes++; writes%2 == 0 { // the second piece
					return errNoSpace
				}
			}
			return nil
		})
		if put(t, c, run, strings.Repeat("x", 100_000)) {
			t.Error("stored")
		}
		if s := stats(t, c); s.Bytes != before || before != FileSize(64) {
			t.Errorf("run %d: %+v, %d before", run, s, before)
		}
		must(t, c.Close())
	}
}

func TestOpenPreserved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "named")
	c := ok(Open(path, 10, nil))(t)
	put(t, c, 1, "entry")
	must(t, preserve(c, path, true))
	must(t, c.Close())
	before := ok(os.ReadFile(path))(t)
	c = ok(Open(path, 10, nil))(t)
	if put(t, c, 1, "again") || put(t, c, 2, "late") {
		t.Error("stored")
	}
	wantEntry(t, c, 1, "entry")
	if s := stats(t, c); s.RefusedFilled != 1 || s.RefusedFrozen != 1 || !s.Preserved || !s.Frozen {
		t.Errorf("%+v", s)
	}
	must(t, c.Freeze(t.Context()))
	must(t, c.Close())
	if !slices.Equal(before, ok(os.ReadFile(path))(t)) {
		t.Error("they differ")
	}
}

func TestConcurrentClose(t *testing.T) {
	const holders, rounds = 3, 30
	dir := inMemory(t)
	allAt(t, holders, "cache.closing", "tempfile.no O_TMPFILE", errTest)
	for range rounds {
		c := ok(Create(10, &Options{Dir: dir}))(t)
		h := ok(c.Handle())(t)
		all := []*Cache{c}
		for len(all) < holders {
			all = append(all, ok(Attach(h, nil))(t))
		}
		var wg sync.WaitGroup
		for _, x := range all {
			wg.Go(func() {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if left := allNames(t, dir); len(left) > 0 {
			t.Fatalf("left: %q", left)
		}
	}
}

func TestAttachDuringLastClose(t *testing.T) {
	dir := inMemory(t)
	var late *Cache
	var h Handle
	faults(t, func(p string) error {
		switch {
		case p == "tempfile.no O_TMPFILE":
			return errTest
		case p == "cache.closing" && late == nil:
			late = ok(Attach(h, nil))(t)
		}
		return nil
	})
	c := ok(Create(10, &Options{Dir: dir}))(t)
	h = ok(c.Handle())(t)
	must(t, c.Close())
	if names := allNames(t, dir); len(names) != 1 {
		t.Errorf("%q", names)
	}
	put(t, late, 1, "entry")
	wantEntry(t, late, 1, "entry")
	must(t, late.Close())
	if left := allNames(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
