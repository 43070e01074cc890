//go:build linux

package cache

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
)

// golden is what testdata/make.py puts into its files.
var golden = map[int64]string{0: "zero", 1: "", 7: strings.Repeat(allBytes(), 5), 19: "last"}

func allBytes() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}

// copied is a golden file of the test's own.
func copied(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, ok(os.ReadFile(filepath.Join("testdata", name)))(t), 0o600))
	return path
}

// wantGolden checks all 20 slots; lost ones must be misses.
func wantGolden(t testing.TB, c *Cache, lost ...int64) {
	t.Helper()
	for i := range int64(20) {
		if s, ok := golden[i]; ok && !slices.Contains(lost, i) {
			wantEntry(t, c, i, s)
		} else {
			wantMiss(t, c, i)
		}
	}
}

func TestGoldenFilesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command(pytest.Python(t, "struct"), "testdata/make.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := allNames(t, dir)
	for _, name := range names {
		if !bytes.Equal(ok(os.ReadFile(filepath.Join(dir, name)))(t),
			ok(os.ReadFile(filepath.Join("testdata", name)))(t)) {
			t.Errorf("%s differs", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("%d files", len(names))
	}
}

func TestGoldenCaches(t *testing.T) {
	for name, test := range map[string]struct {
		lost  []int64
		bad   int64
		dead  int64
		index bool // the index differs from the sealed one
	}{
		"good.cache": {}, "dead.cache": {dead: 640}, "good_v1.cache": {}, "dead_v1.cache": {dead: 640},
		"data_bit_v1.cache":   {lost: []int64{7}, bad: 1},
		"record_bit_v1.cache": {lost: []int64{7}, bad: 1},
		"slot_lost_v1.cache":  {lost: []int64{7}, index: true},
		"cut_data.cache":      {lost: []int64{0, 1, 7, 19}, bad: 4},
		"data_bit.cache":      {lost: []int64{7}, bad: 1},
		"record_bit.cache":    {lost: []int64{7}, bad: 1},
		"slot_swapped.cache":  {lost: []int64{0}, bad: 1, index: true},
		"slot_outside.cache":  {lost: []int64{7}, bad: 1, index: true},
		"slot_negative.cache": {lost: []int64{7}, bad: 1, index: true},
		"slot_odd.cache":      {lost: []int64{7}, bad: 1, index: true},
		"slot_lost.cache":     {lost: []int64{7}, index: true},
	} {
		for _, kind := range []string{"", "cache.map"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				failAt(t, kind, errTest)
				c := ok(Load(filepath.Join("testdata", name), nil))(t)
				defer c.Close()
				wantGolden(t, c, test.lost...)
				rep := check(t, c)
				if rep.FilledSlots != 4-int64(len(test.lost)) || rep.Bad != test.bad || !rep.Preserved ||
					rep.SealBroken != test.index || rep.OK() != (test.bad == 0 && !test.index) {
					t.Errorf("%+v", rep)
				}
				if test.lost == nil && rep.DeadBytes != test.dead {
					t.Errorf("%+v", rep)
				}
				if put(t, c, 2, "new") {
					t.Error("a preserved cache was put to")
				}
				must(t, c.Freeze(t.Context()))
				if s := stats(t, c); !s.Frozen || !s.Preserved || s.RefusedFrozen != 1 ||
					(s.Bad > 0) != (test.bad > 0) {
					t.Errorf("%+v", s)
				}
			})
		}
	}
	c := ok(Load(filepath.Join("testdata", "empty.cache"), nil))(t)
	defer c.Close()
	if rep := check(t, c); rep.FilledSlots != 0 || rep.Empty != 20 || !rep.OK() {
		t.Errorf("%+v", rep)
	}
}

func TestOpenInvalidFiles(t *testing.T) {
	for name, why := range map[string]string{
		"newer.cache": "newer leat", "newer_magic.cache": "newer leat", "older.cache": "version 0, expected 1 to 2",
		"foreign.cache":  "another kind of file",
		"cut_page.cache": "cut off", "cut_index.cache": "cut off", "page_bit.cache": "damaged",
		"growing.cache": "not preserved", "good.pfio": "another kind",
	} {
		t.Run(name, func(t *testing.T) {
			path := copied(t, name)
			before := ok(os.ReadFile(path))(t)
			_, errLoad := Load(path, nil)
			_, errOpen := Open(path, 20, nil)
			if name == "growing.cache" {
				errOpen = errLoad
			}
			for _, err := range []error{errLoad, errOpen} {
				wantErr(t, err, ErrFormat)
				if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path) {
					t.Errorf("%v", err)
				}
			}
			if !bytes.Equal(before, ok(os.ReadFile(path))(t)) && name != "growing.cache" {
				t.Error("the file was changed")
			}
		})
	}
}

func TestGoldenCacheGrows(t *testing.T) {
	for name, version := range map[string]int{"growing.cache": 2, "growing_v1.cache": 1} {
		t.Run(name, func(t *testing.T) {
			path := copied(t, name)
			c := ok(Open(path, 20, nil))(t)
			wantGolden(t, c)
			put(t, c, 2, "new")
			if s := stats(t, c); s.Stored != 5 || s.DeadBytes != 0 {
				t.Errorf("%+v", s)
			}
			must(t, c.Close())
			c = ok(Open(path, 20, nil))(t)
			defer c.Close()
			wantEntry(t, c, 2, "new")
			wantEntry(t, c, 7, golden[7])
			if rep := check(t, c); !rep.OK() || rep.FilledSlots != 5 || rep.DeadBytes != 0 {
				t.Errorf("%+v", rep)
			}
			if info := ok(Inspect(path))(t); info.Version != version || info.Entries != 5 {
				t.Errorf("%+v", info)
			}
		})
	}
}

// pfio: preload of a file of another length reads data as index; a killed put leaves an entry that
// gets another one's bytes.
func TestImportPFIO(t *testing.T) {
	c := create(t, 25, nil)
	if n, err := c.ImportPFIO(t.Context(), "testdata/good.pfio", 20); n != 4 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	wantGolden(t, c)
	if n, err := c.ImportPFIO(t.Context(), "testdata/good.pfio", 20); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if n, err := c.ImportPFIO(t.Context(), "testdata/empty.pfio", 20); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for name, tests := range map[string]map[int64]string{
		"good.pfio": {1: "it has more slots, at most 100", 8: "it has more slots, at most 20",
			19: "it has more slots, at most 20", 21: "", 25: "", 24: ""},
		"empty.pfio":    {19: "it has no entries", 21: "index of 336 bytes, but has 320"},
		"killed.pfio":   {20: "slot 2 end at byte"},
		"overlap.pfio":  {20: "share bytes"},
		"negative.pfio": {20: "slot 2 is invalid"},
		"huge.pfio":     {20: "slot 2 end at"},
		"in_index.pfio": {20: "within the index"},
		"missing.pfio":  {20: "no such file"},
		"":              {20: "not a regular file"},
	} {
		for n, why := range tests {
			empty := create(t, 25, nil)
			imported, err := empty.ImportPFIO(t.Context(), "testdata/"+name, n)
			if imported != 0 || err == nil || !strings.Contains(err.Error(),
				why) || name != "missing.pfio" && !errors.Is(err, ErrFormat) {
				t.Errorf("%s with %d slots: %d, %v", name, n, imported, err)
			}
			if rep := check(t, empty); rep.FilledSlots != 0 {
				t.Errorf("%s with %d slots: %+v", name, n, rep)
			}
		}
	}
	for _, n := range []int64{0, -1, 26, 1 << 62} {
		if _, err := c.ImportPFIO(t.Context(), "testdata/good.pfio", n); err == nil {
			t.Errorf("%d slots were imported into 25", n)
		}
	}
	small := create(t, 20, &Options{MaxBytes: FileSize(20, 1280, 4)})
	if n, err := small.ImportPFIO(t.Context(), "testdata/good.pfio",
		20); n != 2 || err == nil || !strings.Contains(err.Error(), "2 of 4") {
		t.Errorf("%d, %v", n, err)
	}
}

func TestExportPFIO(t *testing.T) {
	c := create(t, 20, nil)
	for _, i := range []int64{7, 0, 1, 19} { // the script's order
		put(t, c, i, golden[i])
	}
	path := filepath.Join(t.TempDir(), "out")
	if n, err := c.ExportPFIO(t.Context(), path, false); n != 4 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if !bytes.Equal(ok(os.ReadFile(path))(t), ok(os.ReadFile("testdata/good.pfio"))(t)) {
		t.Error("the files differ")
	}
	if _, err := c.ExportPFIO(t.Context(), path, false); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v", err)
	}
	other := create(t, 20, nil)
	put(t, other, 3, "x")
	must(t, ignore(other.ExportPFIO(t.Context(), path, true)))
	again := create(t, 20, nil)
	must(t, ignore(again.ImportPFIO(t.Context(), path, 20)))
	wantEntry(t, again, 3, "x")
	if names := allNames(t, filepath.Dir(path)); len(names) != 1 {
		t.Errorf("%q", names)
	}
	failAt(t, "cache.write", errNoSpace)
	if _, err := c.ExportPFIO(t.Context(), path+"2", false); err == nil || len(allNames(t, filepath.Dir(path))) != 1 {
		t.Errorf("%v, %q", err, allNames(t, filepath.Dir(path)))
	}
}

func TestEach(t *testing.T) {
	c := ok(Load("testdata/record_bit.cache", nil))(t)
	defer c.Close()
	found := map[int64]int64{}
	last := int64(-1)
	must(t, c.Each(t.Context(), func(e Entry) error {
		if e.Slot <= last {
			t.Error("not in order")
		}
		last = e.Slot
		if e.Bad != (e.Slot == 7) {
			t.Errorf("%+v", e)
		}
		found[e.Slot] = e.Length
		return nil
	}))
	if want := map[int64]int64{0: 4, 1: 0, 7: 0, 19: 4}; !maps.Equal(want, found) {
		t.Errorf("%v", found)
	}
	wantErr(t, c.Each(t.Context(), func(Entry) error { return errTest }), errTest)
}
