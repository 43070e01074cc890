package apply

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/internal/fault"
	"leat/internal/localpath"
)

func TestPlanReplacedBlocks(t *testing.T) {
	dir := t.TempDir()
	job, path, whole := unfinishedRun(t, "nearest", dir, 20)
	plan := func(change func(*Job)) *outcome.ReplacedBlocks {
		t.Helper()
		again := job
		if change != nil {
			change(&again)
		}
		p, err := MakePlan(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		return p.Replaced
	}
	usable := func(what string, r *outcome.ReplacedBlocks) {
		t.Helper()
		if r == nil || r.Blocks != 20 || r.Total != 100 || !slices.Equal(r.Paths,
			[]string{path}) || len(r.Changes) > 0 {
			t.Errorf("%s: %+v", what, r)
		}
	}
	usable("the same job", plan(nil))
	usable("another size of blocks", plan(func(j *Job) { j.Controls.WindowWidth, j.Controls.WindowHeight = 128, 128 }))
	if r := plan(func(j *Job) { j.Resume = true }); r != nil {
		t.Errorf("a run that goes on: %+v", r)
	}
	if r := plan(func(j *Job) { j.Version = "2" }); r == nil || r.Blocks != 20 || len(r.Changes) != 1 ||
		!strings.Contains(r.Changes[0], "version") {
		t.Errorf("another version: %+v", r)
	}
	if !bytes.Equal(fileBytes(t, path), whole) {
		t.Error("planning changed the unfinished output")
	}
	res := mustRun(t, job)
	usable("the run", res.Plan.Replaced)
	if res.Resumed != 0 {
		t.Errorf("%d blocks were resumed", res.Resumed)
	}
	if res := mustRun(t, job); res.Plan.Replaced != nil {
		t.Errorf("after a run that ended well: %+v", res.Plan.Replaced)
	}
	noTraces(t, dir)
}

func TestFailBeforeFirstBlockKeepsSpool(t *testing.T) {
	dir := t.TempDir()
	job, path, whole := unfinishedRun(t, "nearest", dir, 20)
	again := job
	stop := errors.New("enough")
	again.Func = func(context.Context, *Block) error { return stop }
	_, err := Run(t.Context(), again)
	var left *outcome.IncompleteError
	if !errors.Is(err, stop) || !errors.As(err, &left) || !slices.Equal(left.Paths,
		[]string{path}) || left.Done != -1 {
		t.Fatalf("%v: %+v", err, left)
	}
	if !bytes.Equal(fileBytes(t, path), whole) {
		t.Error("the unfinished output was changed")
	}
	job.Resume = true
	if res := mustRun(t, job); res.Resumed != 20 {
		t.Errorf("%d blocks were resumed", res.Resumed)
	}
	noTraces(t, dir)
}

func TestListAndDiscardSpools(t *testing.T) {
	dir := t.TempDir()
	job, path, _ := unfinishedRun(t, "nearest", dir, 20)
	at := func(name string) string { return filepath.Join(dir, name) }
	notes := []byte("notes of another program with a name like that")
	for name, text := range map[string][]byte{".notes.leat-part": notes, ".short.leat-part": []byte("hello\n"),
		".zeros.leat-part": append(make([]byte, 64), notes...), "out.leat-part": notes,
		".empty.tif.leat-part": nil, "done.tif": notes} {
		if err := os.WriteFile(at(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at(".folder.leat-part"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".killed.img.leat-gdal", ".held.tif.leat-gdal"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at(name), "half.img"), notes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("done.tif"), at(".link.leat-part")); err != nil {
		t.Fatal(err)
	}
	held, err := spool.Open(spool.Target{Path: at("held.tif"), Label: "held.tif"})
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Leave([]*spool.File{held})
	check := func(what string, want []SpoolFile) {
		t.Helper()
		list, err := ListSpools(t.Context(), dir)
		for i := range list {
			list[i].Bytes = 0
			list[i].ModTime = want[0].ModTime
		}
		if err != nil || !slices.Equal(list, want) {
			t.Errorf("%s: %v: %+v", what, err, list)
		}
	}
	inUse := SpoolFile{Path: at(".held.tif.leat-part"), InUse: true}
	check("before", []SpoolFile{{Path: at(".empty.tif.leat-part")}, inUse,
		{Path: path, Output: localpath.Real(job.Outputs["out"].Path), Blocks: 20, Total: 100}})
	removed, err := DiscardSpools(t.Context(), dir)
	if err != nil || len(removed) != 3 || removed[0].Path != at(".killed.img.leat-gdal") ||
		removed[0].Bytes != int64(len(notes)) || removed[1].Path != at(".empty.tif.leat-part") ||
		removed[2].Path != path || removed[2].Output == "" || removed[2].Bytes == 0 {
		t.Errorf("%v: %+v", err, removed)
	}
	check("after", []SpoolFile{inUse})
	_, err = Discard(t.Context(), map[string]Output{"n": {Path: at("notes")}})
	if !errors.Is(err, outcome.ErrNotSpool) {
		t.Errorf("discarding an output with another file for its path: %v", err)
	}
	for _, name := range []string{".notes.leat-part", ".short.leat-part", ".zeros.leat-part", "out.leat-part", ".folder.leat-part", ".link.leat-part",
		"done.tif", ".held.tif.leat-gdal/half.img"} {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := ListSpools(t.Context(), at("nosuch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestDiscardKeepsNewSpool(t *testing.T) {
	dir := t.TempDir()
	job, path, _ := unfinishedRun(t, "nearest", dir, 20)
	// Between the lock and the removal another run removes the file and creates one of the same
	// name.
	var other *os.File
	fault.Set(func(point string) error {
		if point == "lockfile.locked" && other == nil {
			var err error
			if err = os.Remove(path); err == nil {
				if other, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
					err = unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB)
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	defer fault.Set(nil)
	list, err := Discard(t.Context(), job.Outputs)
	if other == nil {
		t.Fatal("no lock was taken")
	}
	defer other.Close()
	if err == nil || len(list) > 0 {
		t.Errorf("%v: %+v were removed", err, list)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error("the file of the other run was removed:", err)
	}
}
