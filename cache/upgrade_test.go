//go:build linux

package cache

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/proctest"
)

// createOld makes a named cache of version 1, as earlier builds did.
func createOld(t testing.TB, path string, n int64, o *Options) *Cache {
	t.Helper()
	p := orDefault(o)
	h := &header{version: oldest, n: n, maxBytes: p.MaxBytes, durability: p.Durability}
	_, _ = rand.Read(h.uuid[:])
	must(t, os.WriteFile(path, append(h.encode(), make([]byte, h.base()-pageSize)...), 0o600))
	return ok(Open(path, n, o))(t)
}

// wantSame checks that two files have the same entries, and state but for the version.
func wantSame(t *testing.T, old, upgraded string, entries map[int64]string) {
	t.Helper()
	a, b := ok(Inspect(old))(t), ok(Inspect(upgraded))(t)
	if a.Version != 1 || b.Version != 2 || a.Slots != b.Slots || a.Frozen != b.Frozen || a.Preserved != b.Preserved ||
		a.MaxBytes != b.MaxBytes || a.Durable != b.Durable || a.UUID == b.UUID || b.Entries != int64(len(entries)) {
		t.Errorf("%+v became %+v", a, b)
	}
	var c *Cache
	if b.Preserved {
		c = ok(Load(upgraded, nil))(t)
	} else {
		c = ok(Open(upgraded, b.Slots, nil))(t)
	}
	defer c.Close()
	for i := range b.Slots {
		if want, has := entries[i]; has {
			wantEntry(t, c, i, want)
		} else {
			wantMiss(t, c, i)
		}
	}
	if rep := check(t, c); !rep.OK() || rep.DeadBytes != 0 || rep.FilledSlots != int64(len(entries)) {
		t.Errorf("%+v", rep)
	}
}

func TestUpgrade(t *testing.T) {
	for _, name := range []string{"good_v1.cache", "dead_v1.cache", "growing_v1.cache"} {
		t.Run(name, func(t *testing.T) {
			path := copied(t, name)
			must(t, os.Chmod(path, 0o640))
			before := ok(os.ReadFile(path))(t)
			for _, to := range []string{path + ".new", path} {
				keep := copied(t, name)
				if dropped, err := Upgrade(t.Context(), path, to, false, nil); dropped != 0 || err != nil {
					t.Fatalf("%d, %v", dropped, err)
				}
				wantSame(t, keep, to, golden)
				if st := ok(os.Stat(to))(t); st.Mode() != 0o640 {
					t.Errorf("mode %v", st.Mode())
				}
				if to != path && string(ok(os.ReadFile(path))(t)) != string(before) {
					t.Error("the old file was changed")
				}
			}
			_, err := Upgrade(t.Context(), path, path, false, nil)
			wantErr(t, err, ErrCurrent)
			if names := allNames(t, filepath.Dir(path)); len(names) != 2 {
				t.Errorf("%q", names)
			}
		})
	}
}

func TestUpgradeDropsDamagedEntries(t *testing.T) {
	path := copied(t, "data_bit_v1.cache")
	dropped, err := Upgrade(t.Context(), path, path, false, nil)
	if dropped != 1 || err != nil {
		t.Fatalf("%d, %v", dropped, err)
	}
	wantSame(t, copied(t, "data_bit_v1.cache"), path, map[int64]string{0: golden[0], 1: golden[1], 19: golden[19]})
	lost := copied(t, "slot_lost_v1.cache")
	_, err = Upgrade(t.Context(), lost, lost, false, nil)
	wantErr(t, err, ErrFormat)
}

func TestUpgradeKeepsState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	o := &Options{MaxBytes: 1 << 20, Durability: DurabilityBatch}
	c := createOld(t, path, 3000, o)
	want := map[int64]string{}
	for _, i := range []int64{2999, 5, 600, 0} {
		want[i] = string(content(i))
		put(t, c, i, want[i])
	}
	_, err := Upgrade(t.Context(), path, path, false, nil)
	if err == nil || !strings.Contains(err.Error(), "open in a process") {
		t.Errorf("in use: %v", err)
	}
	if _, err := Upgrade(t.Context(), path, path+".open", false, nil); err != nil {
		t.Fatal(err)
	}
	wantSame(t, path, path+".open", want)
	must(t, c.Freeze(t.Context()))
	if _, err := Upgrade(t.Context(), path, path+".frozen", false, nil); err != nil {
		t.Fatal(err)
	}
	wantSame(t, path, path+".frozen", want)
	must(t, c.Close())
	_, err = Upgrade(t.Context(), path, path+".frozen", false, nil)
	wantErr(t, err, fs.ErrExist)
	if _, err := Upgrade(t.Context(), path, path+".frozen", true, nil); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Upgrade(ended, path, path, false, nil)
	wantErr(t, err, context.Canceled)
	if _, err := Upgrade(t.Context(), path, path, false, &Options{Durability: DurabilityEach}); err == nil {
		t.Error("an option without effect was taken")
	}
	failAt(t, "cache.write", errNoSpace)
	_, err = Upgrade(t.Context(), path, path, false, nil)
	wantErr(t, err, errNoSpace)
	if info := ok(Inspect(path))(t); info.Version != 1 || len(allNames(t, filepath.Dir(path))) != 3 {
		t.Errorf("%+v, %q", info, allNames(t, filepath.Dir(path)))
	}
}

func TestKillDuringUpgrade(t *testing.T) {
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		for point, done := range map[string]bool{
			"cache.write": false, "cache.copied": false, "cache.renamed": true,
		} {
			t.Run(point+" "+way, func(t *testing.T) {
				path := copied(t, "growing_v1.cache")
				awaitKilled(t, proctest.New("upgrade", path, way).KillAt(point, 1).Start(t))
				if info := ok(Inspect(path))(t); (info.Version == 2) != done {
					t.Errorf("%+v", info)
				}
				if !done {
					awaitEnd(t, proctest.New("upgrade", path, way).Start(t))
				}
				wantSame(t, copied(t, "growing_v1.cache"), path, golden)
				must(t, ignore(GC(filepath.Dir(path), false)))
				if names := allNames(t, filepath.Dir(path)); len(names) != 1 {
					t.Errorf("%q", names)
				}
			})
		}
	}
}

func upgradeOne(args []string) error {
	setFaults(args[1])
	_, err := Upgrade(context.Background(), args[0], args[0], false, nil)
	return err
}

// TestVersion1 uses a cache of version 1 in all ways.
func TestVersion1(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "old")
	c := createOld(t, path, 100, &Options{MaxBytes: FileSize(100, 5, 20000, 20000, 20000, 20000)})
	if !put(t, c, 1, "entry") || put(t, c, 1, "other") {
		t.Error("not stored once")
	}
	awaitEnd(t, proctest.New("put once", handleOf(t, c), "", "2").Start(t))
	awaitKilled(t, proctest.New("put once", handleOf(t, c), "", "3").KillAt("cache.wrote", 1).Start(t))
	awaitEnd(t, proctest.New("fill", handleOf(t, c), "", "4", "1", dir).Start(t))
	wantEntry(t, c, 1, "entry")
	wantEntry(t, c, 2, string(content(2)))
	wantMiss(t, c, 3)
	wantEntry(t, c, 4, string(content(4)))
	if put(t, c, 5, strings.Repeat("a", 100000)) {
		t.Error("beyond the limit")
	}
	if s := stats(t, c); s.Stored != 3 || s.RefusedFilled != 1 || s.RefusedFull != 1 || !s.Frozen || s.DeadBytes == 0 {
		t.Errorf("%+v", s)
	}
	must(t, preserve(c, filepath.Join(dir, "kept"), false))
	must(t, c.Close())
	c = ok(Load(filepath.Join(dir, "kept"), nil))(t)
	if rep := check(t, c); !rep.OK() || !rep.Preserved || rep.FilledSlots != 3 {
		t.Errorf("%+v", rep)
	}
	must(t, c.Close())
	page := ok(os.ReadFile(path))(t)[:pageSize]
	for k, b := range page {
		if b != 0 && (k >= waitAt && k < countersAt || k >= sealAt+sealSize) {
			t.Errorf("byte %d is %d", k, b)
		}
	}
}
