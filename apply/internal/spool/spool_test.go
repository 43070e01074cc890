package spool

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"leat/block"
	"leat/internal/overview"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/raster"
)

// testFile returns a spool in a temporary directory, with a header.
func testFile(tb testing.TB) *File {
	tb.Helper()
	f, err := Open(Target{Path: filepath.Join(tb.TempDir(), "a.tif"), Label: "a.tif"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { Remove([]*File{f}) })
	if err := f.Start([]byte(`{"path":"a.tif","blocks":4}`)); err != nil {
		tb.Fatal(err)
	}
	return f
}

func content(tb testing.TB, f *File) []byte {
	tb.Helper()
	b, err := os.ReadFile(f.Path())
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestPixelsContainingRecords(t *testing.T) {
	inner := testFile(t)
	for n := range 20 {
		if _, err := inner.append(KindBlock, uint64(n), []byte("tables"), bytes.Repeat([]byte{byte(n)}, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	pixels := content(t, inner)
	f := testFile(t)
	begin := f.Bytes()
	for range 3 {
		if _, err := f.append(KindBlock, 1, []byte("tables"), pixels); err != nil {
			t.Fatal(err)
		}
	}
	count := func(n nonce) (records int) {
		if _, err := newScanner(f, begin, f.Bytes(), n).Records(t.Context(),
			func(Head, []byte) error { records++; return nil }); err != nil {
			t.Fatal(err)
		}
		return records
	}
	if n := count(f.nonce); n != 3 {
		t.Errorf("%d records of 3", n)
	}
	if _, err := f.f.WriteAt(make([]byte, 4), begin); err != nil { // the first is torn, so its contents are searched
		t.Fatal(err)
	}
	if n := count(f.nonce); n != 2 {
		t.Errorf("%d records of 2", n)
	}
	if n := count(inner.nonce); n < 20 {
		t.Errorf("with the nonce of the other file %d of its records are found in the pixels: this test shows nothing", n)
	}
}

func TestHeaderReplacedBeforeLock(t *testing.T) {
	f := testFile(t)
	h, err := OpenHeader(f.Path())
	if err != nil || h.Output != "a.tif" || h.Blocks != 4 || !h.Empty() {
		t.Fatalf("%+v, %v", h, err)
	}
	if err := f.Continue(h); err != nil {
		t.Error(err)
	}
	if err := f.Start([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := f.Continue(h); err == nil {
		t.Error("the header of another run was accepted")
	}
}

// FuzzSpool checks that reading any file as a spool causes no panic, and that records lie inside
// the file.
func FuzzSpool(f *testing.F) {
	seed := func(records ...[]byte) []byte {
		s := testFile(f)
		for i, r := range records {
			if _, err := s.append(uint8(1+i%4), uint64(i), r[:len(r)/2], r[len(r)/2:]); err != nil {
				f.Fatal(err)
			}
		}
		return content(f, s)
	}
	whole := seed([]byte("one"), []byte(strings.Repeat(recordMagic, 30)), nil, make([]byte, 4096))
	f.Add(whole)
	f.Add(seed())
	f.Add(whole[:len(whole)-4000])
	f.Add(append(slices.Clone(whole), whole...))
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _ := ReadHeader(bytes.NewReader(b), int64(len(b)))
		if h == nil {
			h = &Header{size: int64(len(b))}
		}
		at := int64(len(h.bytes))
		end, err := NewScanner(bytes.NewReader(b), h).Records(t.Context(), func(r Head, meta []byte) error {
			if r.Offset < at || r.MetaBytes != int64(len(meta)) || r.DataBytes < 0 || r.End() > int64(len(b)) {
				t.Errorf("%+v in %d bytes, after %d", r, len(b), at)
			}
			at = r.End()
			return nil
		})
		if err != nil || end != at {
			t.Errorf("%v, end %d, not %d", err, end, at)
		}
	})
}

// testLayout returns the layout of an output of 100 x 70 pixels with an overview, in blocks with
// this side. Blocks of 64 have whole tiles of the overview, and those of 32 do not.
func testLayout(tb testing.TB, side int) *Layout {
	tb.Helper()
	const w, h = 100, 70
	l, err := NewLayout(Spec{Output: "out",
		File: tiffwrite.FileSpec{Path: "a.tif", Width: w, Height: h, Bands: 1, Type: ndarray.Uint8, TileWidth: 32,
			TileHeight: 32, Levels: []raster.Size{{Width: overview.Reduced(w, 2), Height: overview.Reduced(h, 2)}}},
		Blocks:     block.Plan{Width: w, Height: h, WindowWidth: side, WindowHeight: side},
		Candidates: tiffwrite.Candidates(ndarray.Uint8, tiffwrite.Deflate), Factors: []int{2}, Method: overview.Average,
		Statistics: true, Histogram: true})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// pixels returns an array for block b.
func pixels(b block.Block) *ndarray.Array {
	a := ndarray.New(ndarray.Uint8, 1, b.Window.Height, b.Window.Width)
	for i := range a.Raw() {
		a.Raw()[i] = byte(i*7 + i/50 + b.Number)
	}
	return a
}

func TestRecordRoundTrip(t *testing.T) {
	for _, side := range []int{32, 64} {
		t.Run(fmt.Sprint(side), func(t *testing.T) { recordRoundTrip(t, testLayout(t, side), side == 64) })
	}
}

func recordRoundTrip(t *testing.T, l *Layout, whole bool) {
	t.Helper()
	e := NewEncoder(l, NewChooser(l, nil), nil, "")
	for n := range l.Blocks.Count() {
		b := l.Blocks.At(n)
		made, err := e.Encode(b, pixels(b), Extra{Col: n, Values: [][]byte{[]byte("a value"), {}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, len(made.Data) - 1, len(made.Data) + 1} {
			if _, err := l.ParseParts(b, made.Meta, make([]byte, n)); !errors.Is(err, ErrRecord) {
				t.Errorf("block %d: tables of %d bytes of data with %d: %v", b.Number, len(made.Data), n, err)
			}
		}
		if apart, err := l.ParseParts(b, made.Meta, made.Data); err != nil || &apart.Data[0] != &made.Data[0] {
			t.Errorf("block %d: %v", b.Number, err)
		}
		read, err := l.Parse(b, append(slices.Clone(made.Meta), made.Data...))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read.Meta, made.Meta) || !bytes.Equal(read.Data, made.Data) || read.Extra.Col != n ||
			string(read.Extra.Values[0]) != "a value" || len(read.Extra.Values) != 2 || len(read.tiles) != len(made.tiles) {
			t.Errorf("block %d: %+v, not %+v", n, read, made)
		}
		if last := read.tiles[len(read.tiles)-1]; (last.level == 1) != whole || (len(read.sections) == 0) != whole {
			t.Errorf("block %d: the last tile is of level %d, and there are %d sections", n, last.level, len(read.sections))
		}
	}
}

func TestSpoolResume(t *testing.T) {
	for _, side := range []int{32, 64} {
		t.Run(fmt.Sprint(side), func(t *testing.T) { spoolResume(t, testLayout(t, side)) })
	}
}

func spoolResume(t *testing.T, l *Layout) {
	t.Helper()
	f := testFile(t)
	s := New(f, l, NewChooser(l, f), nil)
	for n := range l.Blocks.Count() {
		if n == 1 {
			continue
		}
		b := l.Blocks.At(n)
		e := s.NewEncoder("")
		r, err := e.Encode(b, pixels(b), Extra{Values: [][]byte{{byte(n)}, {7}}[:n%3]})
		if err == nil {
			err = s.Add(e, b, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.f.WriteAt(make([]byte, 100), f.Bytes()); err != nil { // a torn record
		t.Fatal(err)
	}
	h, err := OpenHeader(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	again := New(f, l, NewChooser(l, f), nil)
	res, err := again.Scan(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	for n := range l.Blocks.Count() {
		b := l.Blocks.At(n)
		if res.Has(n) != (n != 1) {
			t.Errorf("block %d: %v", n, res.Has(n))
		}
		if n == 1 {
			continue
		}
		if _, err := res.Restore(b); err != nil {
			t.Fatal(err)
		}
		if v, err := res.Values(n); err != nil || len(v) != n%3 || len(v) > 0 && v[0][0] != byte(n) {
			t.Errorf("block %d emitted %v, %v", n, v, err)
		}
	}
	if err := res.RestoreTiles(); err != nil {
		t.Fatal(err)
	}
	b := l.Blocks.At(1)
	e := again.NewEncoder("")
	r, err := e.Encode(b, pixels(b), Extra{})
	if err == nil {
		err = again.AddRemote(e, b, r)
	}
	if err == nil {
		_, err = again.Finish(t.Context(), 2)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := range l.Blocks.Count() {
		b := l.Blocks.At(n)
		got := ndarray.New(ndarray.Uint8, 1, b.Window.Height, b.Window.Width)
		if err := again.NewReader().Read(t.Context(), b.Window, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Raw(), pixels(b).Raw()) {
			t.Errorf("block %d has other pixels", n)
		}
	}
	if m := again.Moments(0); m.Total != 7000 {
		t.Errorf("moments of %d pixels", m.Total)
	}
	for i, tile := range again.levels[1].tiles {
		if tile.bytes == 0 {
			t.Errorf("tile %d of the overview: %+v", i, tile)
		}
	}
}

// FuzzRecord checks that an accepted record fits its block, whatever its bytes.
func FuzzRecord(f *testing.F) {
	l := testLayout(f, 64)
	e := NewEncoder(l, NewChooser(l, nil), nil, "fuzz")
	for n := range l.Blocks.Count() {
		b := l.Blocks.At(n)
		r, err := e.Encode(b, pixels(b), Extra{Values: [][]byte{[]byte("a value"), nil}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(n, append(slices.Clone(r.Meta), r.Data...), len(r.Meta))
	}
	f.Fuzz(func(t *testing.T, n int, payload []byte, meta int) {
		if n < 0 || n >= l.Blocks.Count() || meta < 0 || meta > len(payload) {
			return
		}
		b := l.Blocks.At(n)
		whole, err := l.Parse(b, payload)
		if err != nil {
			return
		}
		end := 0
		for _, p := range whole.tiles {
			if p.offset != end || p.length < 0 {
				t.Fatalf("a tile at %d, after %d", p.offset, end)
			}
			end += p.length
		}
		for _, s := range whole.sections {
			if s.offset != end || s.length < 0 {
				t.Fatalf("a section at %d, after %d", s.offset, end)
			}
			end += s.length
		}
		if end != len(whole.Data) || len(whole.Meta)+len(whole.Data) != len(payload) {
			t.Fatalf("%d bytes in tables, %d of data, %d of %d", end, len(whole.Data), len(whole.Meta), len(payload))
		}
		v := whole.values
		if v.offset < 0 || v.length < 4 || v.offset+v.length > int64(len(whole.Meta)) {
			t.Fatalf("values at %+v of %d", v, len(whole.Meta))
		}
		if part, err := l.parseMeta(b, payload[:len(whole.Meta)], int64(len(payload))); err != nil ||
			!bytes.Equal(part.Meta, whole.Meta) {
			t.Fatalf("the tables alone: %v", err)
		}
	})
}

func TestRecordParserReused(t *testing.T) {
	for _, side := range []int{32, 64} {
		l := testLayout(t, side)
		e := NewEncoder(l, NewChooser(l, nil), nil, "")
		payloads := make([][]byte, l.Blocks.Count())
		for n := range payloads {
			b := l.Blocks.At(n)
			x := Extra{Col: n}
			for v := range n % 3 {
				x.Values = append(x.Values, []byte{byte(n), byte(v)})
			}
			r, err := e.Encode(b, pixels(b), x)
			if err != nil {
				t.Fatal(err)
			}
			payloads[n] = append(slices.Clone(r.Meta), r.Data...)
		}
		p := recordParser{l: l}
		for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(3 * len(payloads)) {
			n %= len(payloads)
			b := l.Blocks.At(n)
			want, err := l.Parse(b, payloads[n])
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.parse(b, payloads[n], int64(len(payloads[n])))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got.tiles, want.tiles, func(a, b recordTile) bool {
				return a.level == b.level && a.index == b.index && a.offset == b.offset && a.length == b.length &&
					a.final == b.final && slices.Equal(a.moments, b.moments)
			}) || !slices.Equal(got.sections, want.sections) || got.values != want.values ||
				!bytes.Equal(got.histograms, want.histograms) || !bytes.Equal(got.Meta, want.Meta) ||
				!reflect.DeepEqual(got.Extra, want.Extra) {
				t.Fatalf("side %d, block %d: %+v, expected %+v", side, n, got, want)
			}
			if _, err := p.parse(b, payloads[n][:20], 20); !errors.Is(err, ErrRecord) {
				t.Fatalf("a torn record: %v", err)
			}
		}
	}
}
