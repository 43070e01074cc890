package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/internal/proctest"
)

// unfinishedRun runs a case with one worker until some blocks are done, and returns the job and the
// contents of its spool.
func unfinishedRun(t *testing.T, name, dir string, blocks int) (job Job, path string, content []byte) {
	t.Helper()
	job, _, _ = resumeJob(name, "", dir, 1)
	whole := job
	stop := errors.New("enough")
	work := job.Func
	whole.Func = func(ctx context.Context, b *Block) error {
		if b.Number == blocks {
			return stop
		}
		return work(ctx, b)
	}
	_, err := Run(t.Context(), whole)
	var left *outcome.IncompleteError
	if !errors.As(err, &left) || left.Done != blocks {
		t.Fatalf("%v: %+v", err, left)
	}
	return job, left.Paths[0], fileBytes(t, left.Paths[0])
}

// recordsOf returns the records of a spool.
func recordsOf(t *testing.T, content []byte) (list []spool.Head) {
	t.Helper()
	h, err := spool.ReadHeader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = spool.NewScanner(bytes.NewReader(content), h).Records(t.Context(), func(h spool.Head, _ []byte) error {
		list = append(list, h)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestResumeFlippedBytes(t *testing.T) {
	for _, name := range []string{"late choice", "two bands, average, by pixel, zstd", "emitted values"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := runTruth(t, name, "")
			dir := t.TempDir()
			job, path, whole := unfinishedRun(t, name, dir, 85)
			// Flip every byte of a header's fixed part and of some heads, and others at random.
			places := map[int]bool{}
			for i := range spool.HeaderBytes {
				places[i] = true
			}
			list := recordsOf(t, whole)
			for _, f := range []spool.Head{list[0], list[len(list)/2], list[len(list)-1]} {
				for i := range spool.HeadBytes {
					places[int(f.Offset)+i] = true
				}
			}
			for _, f := range list {
				if f.Kind == spool.KindCoding {
					places[int(f.Offset)+4], places[int(f.Offset)+8] = true, true
				}
			}
			for range proctest.Rounds(60, 20, 60) {
				places[rand.IntN(len(whole))] = true
			}
			refused, resumed := 0, 0
			tried := 0
			for at := range places {
				if tried++; testing.Short() && tried > 40 {
					break
				}
				damaged := slices.Clone(whole)
				damaged[at] ^= 1 << rand.IntN(8)
				if err := os.WriteFile(path, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				again, _, merged := resumeJob(name, "", dir, 2)
				again.Resume = true
				res, err := Run(t.Context(), again)
				if err != nil {
					if !errors.As(err, new(*outcome.ResumeError)) {
						t.Fatalf("byte %d of %d: %v", at, len(whole), err)
					}
					if !bytes.Equal(fileBytes(t, path), damaged) {
						t.Errorf("byte %d: a file that was refused was changed", at)
					}
					refused++
					continue
				}
				resumed += res.Resumed
				sameFileBytes(t, fmt.Sprintf("byte %d of %d", at, len(whole)), job.Outputs["out"].Path,
					want.files["out"])
				if !slices.Equal(*merged, want.merged) {
					t.Errorf("byte %d: merged %q", at, *merged)
				}
			}
			if !testing.Short() && refused == 0 || resumed < 80*10 {
				t.Errorf("%d were refused; %d blocks were resumed in the others", refused, resumed)
			}
		})
	}
}

func TestResumeTornRecords(t *testing.T) {
	t.Parallel()
	const name, done = "nearest", 60
	want := runTruth(t, name, "")
	dir := t.TempDir()
	_, path, whole := unfinishedRun(t, name, dir, done)
	var blocks []spool.Head
	for _, f := range recordsOf(t, whole) {
		if f.Kind == spool.KindBlock {
			blocks = append(blocks, f)
		}
	}
	if len(blocks) != done {
		t.Fatalf("%d blocks", len(blocks))
	}
	zero := func(f spool.Head, from, n int64) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[f.Offset+from : f.Offset+from+n]); return b }
	}
	last, middle := blocks[done-1], blocks[done/2]
	for what, c := range map[string]struct {
		tear    func([]byte) []byte
		resumed int
	}{
		"nothing":                        {func(b []byte) []byte { return b }, done},
		"the last, cut in its data":      {func(b []byte) []byte { return b[:last.DataOffset()+last.DataBytes/2] }, done - 1},
		"the last, cut in its head":      {func(b []byte) []byte { return b[:last.Offset+spool.HeadBytes/2] }, done - 1},
		"the last, without a head":       {zero(last, 0, spool.HeadBytes), done - 1},
		"a middle one, without a head":   {zero(middle, 0, spool.HeadBytes), done - 1},
		"a middle one, without tables":   {zero(middle, spool.HeadBytes, middle.MetaBytes), done - 1},
		"a middle one, without its data": {zero(middle, spool.HeadBytes+middle.MetaBytes, middle.DataBytes), done - 1},
		"a middle one, half of its data": {zero(middle, spool.HeadBytes+middle.MetaBytes+middle.DataBytes/2, middle.DataBytes/2),
			done - 1},
		"all but the first's head": {func(b []byte) []byte { return b[:blocks[0].Offset+spool.HeadBytes] }, 0},
		"all of it":                {func(b []byte) []byte { return b[:0] }, 0},
		"zeros behind it":          {func(b []byte) []byte { return append(b, make([]byte, 1<<20)...) }, done},
		"words of it behind it": {func(b []byte) []byte {
			return append(b,
				bytes.Repeat([]byte("LREC"), 1<<18)...)
		}, done},
	} {
		if err := os.WriteFile(path, c.tear(slices.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		if res := want.check(t, what, name, "", dir, 2); res.Resumed != c.resumed {
			t.Errorf("%s: %d blocks were resumed, not %d", what, res.Resumed, c.resumed)
		}
	}
}

func TestResumeUnreadableSpool(t *testing.T) {
	const name = "nearest"
	want := runTruth(t, name, "")
	dir := t.TempDir()
	_, path, whole := unfinishedRun(t, name, dir, 20)
	for what, c := range map[string]struct {
		change func([]byte) []byte
		want   string
	}{
		"format 1": {func(b []byte) []byte { b[8] = 1; return b },
			"it was made by another version of leat (its format is 1, that of this one 4)"},
		"format 3":       {func(b []byte) []byte { b[8] = 3; return b }, "(its format is 3, that of this one 4)"},
		"a later format": {func(b []byte) []byte { b[8] = 5; return b }, "(its format is 5, that of this one 4)"},
		"another file": {func(b []byte) []byte { return []byte("a letter to the editor that somebody keeps here") },
			"it is not an unfinished output"},
		"a short file":     {func(b []byte) []byte { return b[:10] }, "its beginning is damaged"},
		"half a header":    {func(b []byte) []byte { return b[:100] }, "its beginning is damaged"},
		"no JSON":          {func(b []byte) []byte { b[30] ^= 4; return b }, "its beginning is damaged"},
		"another's header": {func(b []byte) []byte { return append([]byte("LEATPART"), b[:64]...) }, "another version"},
	} {
		if err := os.WriteFile(path, c.change(slices.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		job, calls, _ := resumeJob(name, "", dir, 2)
		job.Resume = true
		err := failRun(t, job, path+" can't be continued: ", c.want)
		if !errors.As(err, new(*outcome.ResumeError)) || errors.As(err, new(*outcome.IncompleteError)) ||
			calls.Load() != 0 {
			t.Errorf("%s: %T after %d blocks", what, err, calls.Load())
		}
		job.Resume = false
		if res := mustRun(t, job); res.Resumed != 0 {
			t.Errorf("%s: %d blocks were resumed without being asked", what, res.Resumed)
		}
		sameFileBytes(t, what, job.Outputs["out"].Path, want.files["out"])
		noTraces(t, dir)
	}
	if err := os.Symlink(want.link(t), path); err != nil {
		t.Fatal(err)
	}
	job, _, _ := resumeJob(name, "", dir, 2)
	job.Resume = true
	failRun(t, job, path)
}

// link makes a file for a link to point to.
func (w *truth) link(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(path, w.files["out"], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
