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
	"strings"
	"testing"
)

// unfinishedRun runs a case with one worker until some blocks are done, and returns the job and the
// contents of its spool.
func unfinishedRun(t *testing.T, name, dir string, blocks int) (job Job, spool string, content []byte) {
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
	var left *IncompleteError
	if !errors.As(err, &left) || left.Done != blocks {
		t.Fatalf("%v: %+v", err, left)
	}
	return job, left.Paths[0], fileBytes(t, left.Paths[0])
}

// recordsOf returns the records of a spool.
func recordsOf(t *testing.T, spool []byte) (list []found) {
	t.Helper()
	h, err := readHeader(bytes.NewReader(spool), int64(len(spool)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = newScanner(bytes.NewReader(spool), int64(len(spool)), h.nonce).records(t.Context(), int64(len(h.bytes)),
		func(f found, _ []byte) error {
			list = append(list, f)
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
			job, spool, whole := unfinishedRun(t, name, dir, 85)
			// Flip every byte of a header's fixed part and of some heads, and others at random.
			places := map[int]bool{}
			for i := range spoolHead {
				places[i] = true
			}
			list := recordsOf(t, whole)
			for _, f := range []found{list[0], list[len(list)/2], list[len(list)-1]} {
				for i := range recordHead {
					places[int(f.at)+i] = true
				}
			}
			for _, f := range list {
				if f.kind == recordCoding {
					places[int(f.at)+4], places[int(f.at)+8] = true, true
				}
			}
			rounds := 60
			for range rounds {
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
				if err := os.WriteFile(spool, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				again, _, merged := resumeJob(name, "", dir, 2)
				again.Resume = true
				res, err := Run(t.Context(), again)
				if err != nil {
					if !errors.As(err, new(*ResumeError)) {
						t.Fatalf("byte %d of %d: %v", at, len(whole), err)
					}
					if !bytes.Equal(fileBytes(t, spool), damaged) {
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
	const name, done = "nearest", 60
	want := runTruth(t, name, "")
	dir := t.TempDir()
	_, spool, whole := unfinishedRun(t, name, dir, done)
	var blocks []found
	for _, f := range recordsOf(t, whole) {
		if f.kind == recordBlock {
			blocks = append(blocks, f)
		}
	}
	if len(blocks) != done {
		t.Fatalf("%d blocks", len(blocks))
	}
	zero := func(f found, from, n int64) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[f.at+from : f.at+from+n]); return b }
	}
	last, middle := blocks[done-1], blocks[done/2]
	for what, c := range map[string]struct {
		tear    func([]byte) []byte
		resumed int
	}{
		"nothing":                        {func(b []byte) []byte { return b }, done},
		"the last, cut in its data":      {func(b []byte) []byte { return b[:last.dataAt()+last.data/2] }, done - 1},
		"the last, cut in its head":      {func(b []byte) []byte { return b[:last.at+recordHead/2] }, done - 1},
		"the last, without a head":       {zero(last, 0, recordHead), done - 1},
		"a middle one, without a head":   {zero(middle, 0, recordHead), done - 1},
		"a middle one, without tables":   {zero(middle, recordHead, middle.tables), done - 1},
		"a middle one, without its data": {zero(middle, recordHead+middle.tables, middle.data), done - 1},
		"a middle one, half of its data": {zero(middle, recordHead+middle.tables+middle.data/2, middle.data/2),
			done - 1},
		"all but the first's head": {func(b []byte) []byte { return b[:blocks[0].at+recordHead] }, 0},
		"all of it":                {func(b []byte) []byte { return b[:0] }, 0},
		"zeros behind it":          {func(b []byte) []byte { return append(b, make([]byte, 1<<20)...) }, done},
		"words of it behind it": {func(b []byte) []byte {
			return append(b,
				bytes.Repeat([]byte(recordMagic), 1<<18)...)
		}, done},
	} {
		if err := os.WriteFile(spool, c.tear(slices.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		if res := want.check(t, what, name, "", dir, 2); res.Resumed != c.resumed {
			t.Errorf("%s: %d blocks were resumed, not %d", what, res.Resumed, c.resumed)
		}
	}
}

func TestPixelsContainingRecords(t *testing.T) {
	dir := t.TempDir()
	_, _, other := unfinishedRun(t, "nearest", dir, 20)
	s, err := openSpool(filepath.Join(t.TempDir(), "a.tif"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	if err := s.start([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	begin := s.end
	for range 3 {
		if _, err := s.append(recordBlock, 1, []byte("tables"), other); err != nil {
			t.Fatal(err)
		}
	}
	count := func(n nonce) (records int) {
		st, err := s.f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newScanner(s.f, st.Size(), n).records(t.Context(), begin,
			func(found, []byte) error { records++; return nil }); err != nil {
			t.Fatal(err)
		}
		return records
	}
	if n := count(s.nonce); n != 3 {
		t.Errorf("%d records of 3", n)
	}
	if _, err := s.f.WriteAt(make([]byte, 4), begin); err != nil { // the first is torn, so its contents are searched
		t.Fatal(err)
	}
	if n := count(s.nonce); n != 2 {
		t.Errorf("%d records of 2", n)
	}
	h, err := readHeader(bytes.NewReader(other), int64(len(other)))
	if err != nil {
		t.Fatal(err)
	}
	if n := count(h.nonce); n < 20 {
		t.Errorf("with the nonce of the other file %d of its records are found in the pixels: this test shows nothing",
			n)
	}
}

func TestResumeUnreadableSpool(t *testing.T) {
	const name = "nearest"
	want := runTruth(t, name, "")
	dir := t.TempDir()
	_, spool, whole := unfinishedRun(t, name, dir, 20)
	for what, c := range map[string]struct {
		change func([]byte) []byte
		want   string
	}{
		"format 1": {func(b []byte) []byte { b[8] = 1; return b },
			"it was made by another version of leat (its format is 1, that of this one 3)"},
		"a later format": {func(b []byte) []byte { b[8] = 4; return b }, "(its format is 4, that of this one 3)"},
		"another file": {func(b []byte) []byte { return []byte("a letter to the editor that somebody keeps here") },
			"it is not an unfinished output"},
		"a short file":     {func(b []byte) []byte { return b[:10] }, "its beginning is damaged"},
		"half a header":    {func(b []byte) []byte { return b[:100] }, "its beginning is damaged"},
		"no JSON":          {func(b []byte) []byte { b[30] ^= 4; return b }, "its beginning is damaged"},
		"another's header": {func(b []byte) []byte { return append([]byte(spoolMagic), b[:64]...) }, "another version"},
	} {
		if err := os.WriteFile(spool, c.change(slices.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		job, calls, _ := resumeJob(name, "", dir, 2)
		job.Resume = true
		err := failRun(t, job, spool+" can't be continued (--resume): ", c.want,
			"run without --resume to start over, or remove it")
		if !errors.As(err, new(*ResumeError)) || errors.As(err, new(*IncompleteError)) || calls.Load() != 0 {
			t.Errorf("%s: %T after %d blocks", what, err, calls.Load())
		}
		job.Resume = false
		if res := mustRun(t, job); res.Resumed != 0 {
			t.Errorf("%s: %d blocks were resumed without being asked", what, res.Resumed)
		}
		sameFileBytes(t, what, job.Outputs["out"].Path, want.files["out"])
		noTraces(t, dir)
	}
	if err := os.Symlink(want.link(t), spool); err != nil {
		t.Fatal(err)
	}
	job, _, _ := resumeJob(name, "", dir, 2)
	job.Resume = true
	failRun(t, job, spool)
}

// link makes a file for a link to point to.
func (w *truth) link(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(path, w.files["out"], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// FuzzSpool checks that reading any file as a spool causes no panic, and that records lie inside
// the file.
func FuzzSpool(f *testing.F) {
	seed := func(records ...[]byte) []byte {
		path := filepath.Join(f.TempDir(), "a.tif")
		s, err := openSpool(path, "")
		if err != nil {
			f.Fatal(err)
		}
		defer s.remove()
		if err := s.start([]byte(`{"type":"uint8","bands":1}`)); err != nil {
			f.Fatal(err)
		}
		for i, r := range records {
			if _, err := s.append(uint8(1+i%4), uint64(i), r[:len(r)/2], r[len(r)/2:]); err != nil {
				f.Fatal(err)
			}
		}
		b, err := os.ReadFile(s.path)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	whole := seed([]byte("one"), []byte(strings.Repeat(recordMagic, 30)), nil, make([]byte, 4096))
	f.Add(whole)
	f.Add(seed())
	f.Add(whole[:len(whole)-4000])
	f.Add(append(slices.Clone(whole), whole...))
	f.Add([]byte(spoolMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _ := readHeader(bytes.NewReader(b), int64(len(b)))
		var n nonce
		from := int64(0)
		if h != nil {
			n, from = h.nonce, int64(len(h.bytes))
		}
		at := from
		end, err := newScanner(bytes.NewReader(b), int64(len(b)), n).records(t.Context(), from,
			func(f found, tables []byte) error {
				if f.at < at || f.tables != int64(len(tables)) || f.data < 0 || f.dataAt()+f.data > int64(len(b)) {
					t.Errorf("%+v in %d bytes, after %d", f, len(b), at)
				}
				at = f.dataAt() + f.data
				return nil
			})
		if err != nil || end != at {
			t.Errorf("%v, end %d, not %d", err, end, at)
		}
	})
}

// FuzzRecord checks that an accepted record fits its block, whatever its bytes.
func FuzzRecord(f *testing.F) {
	job := sliceJob(mapGrid(100, 70, 0, 0), terrain[uint8](100, 70, 1),
		Output{Path: filepath.Join(f.TempDir(), "a.tif"), TileSize: 32, Overviews: []int{2}})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	r, err := prepare(context.Background(), &job)
	if err != nil {
		f.Fatal(err)
	}
	o := r.outs[0]
	o.remote = true
	if err := o.begin(0, 1, 1); err != nil {
		f.Fatal(err)
	}
	e := newEncoding(o, "fuzz")
	for n := range r.plan.Blocks.Count() {
		b := r.plan.Blocks.At(n)
		rec, err := e.block(b, cut(terrain[uint8](100, 70, 1), 100, 70, b.Window),
			extra{values: [][]byte{[]byte("a value"), nil}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(n, append(slices.Clone(rec.meta), rec.data...), len(rec.meta))
	}
	f.Fuzz(func(t *testing.T, n int, payload []byte, tables int) {
		if n < 0 || n >= r.plan.Blocks.Count() || tables < 0 || tables > len(payload) {
			return
		}
		b := r.plan.Blocks.At(n)
		whole, err := o.parseRecord(b, payload)
		if err != nil {
			return
		}
		end := 0
		for _, p := range whole.tiles {
			if p.at != end || p.length < 0 {
				t.Fatalf("a tile at %d, after %d", p.at, end)
			}
			end += p.length
		}
		for _, s := range whole.sections {
			if s.at != end || s.length < 0 {
				t.Fatalf("a section at %d, after %d", s.at, end)
			}
			end += s.length
		}
		if end != len(whole.data) || len(whole.meta)+len(whole.data) != len(payload) {
			t.Fatalf("%d bytes in tables, %d of data, %d of %d", end, len(whole.data), len(whole.meta), len(payload))
		}
		v := whole.values
		if v.at < 0 || v.length < 4 || v.at+v.length > int64(len(whole.meta)) {
			t.Fatalf("values at %+v of %d", v, len(whole.meta))
		}
		if part, err := o.parseTables(b, payload[:len(whole.meta)],
			int64(len(payload))); err != nil || !bytes.Equal(part.meta, whole.meta) {
			t.Fatalf("the tables alone: %v", err)
		}
	})
}
