//go:build linux

package index

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"leat/internal/lockfile"
)

// An edit of the index takes this many bytes of the fuzzer's: a place (1), a number (2), an offset
// (1) and a value (8).
const editSize = 12

// Where an edit goes: else to the record of that number.
const (
	editHeader = iota
	editBucket // of the object of that number
	editAnyBucket
	editRecords
)

func edit(where byte, number uint16, offset byte, value uint64) []byte {
	b := binary.LittleEndian.AppendUint16([]byte{where}, number)
	return binary.LittleEndian.AppendUint64(append(b, offset), value)
}

// fuzzed is how many objects the index has that is edited.
const fuzzed = 60

// fuzzBase makes an index with all kinds of records.
func fuzzBase(t testing.TB) []byte {
	b := open(t)
	for n := range fuzzed {
		o := object(n, 0)
		if n%5 == 0 {
			o.Name += strings.Repeat("x", 100*n)
		}
		ok(b.publish(o, limits))(t).Unpin()
	}
	for n := 0; n < fuzzed; n += 7 {
		ok(b.find(t, n).Drop())(t)
	}
	e := b.find(t, 1)
	e.Discard()
	e.Unpin()
	_, r := recordOf(b, 2)
	r.seq.Store(r.seq.Load()&^(1<<stateBits-1) | stateEvicting)
	b.close(t)
	return ok(os.ReadFile(b.index()))(t)
}

func applyEdits(index, edits []byte) {
	put := func(at int, value uint64) {
		if at+8 <= len(index) {
			binary.LittleEndian.PutUint64(index[at:], value)
		}
	}
	for ; len(edits) >= editSize; edits = edits[editSize:] {
		number, offset := int(binary.LittleEndian.Uint16(edits[1:])), int(edits[3])
		value := binary.LittleEndian.Uint64(edits[4:])
		switch edits[0] % 4 {
		case editHeader:
			put(8*(offset%64), value)
		case editBucket:
			if at := bucketsAt + 4*int(keyOf(number%fuzzed).bucket()); at+4 <= len(index) {
				binary.LittleEndian.PutUint32(index[at:], uint32(value))
			}
		case editAnyBucket:
			put(bucketsAt+8*number, value)
		default:
			put(recordsAt+recordSize*(number%512)+offset&^3, value)
		}
	}
}

// FuzzOpenIndex opens an index that is edited at some places and cut at one, or any bytes at all,
// and uses it: that must end, and soon, and without a panic; and a check of it leaves whole index.
func FuzzOpenIndex(f *testing.F) {
	base := fuzzBase(f)
	f.Add([]byte{}, int64(-1), false)
	f.Add([]byte{}, int64(recordsAt+100), false)
	f.Add([]byte{}, int64(100), false)
	f.Add(base[:4096], int64(-1), true)
	f.Add([]byte("leatstg1 and so on"), int64(-1), true)
	const huge = 1<<32 - 1
	offsets := func(fields ...uintptr) (all []byte) {
		for _, o := range fields {
			all = append(all, byte(o/8))
		}
		return all
	}
	var h header
	for _, o := range offsets(0, 8, 16, 24, unsafe.Offsetof(h.epoch), unsafe.Offsetof(h.bytes),
		unsafe.Offsetof(h.files), unsafe.Offsetof(h.next), unsafe.Offsetof(h.free), unsafe.Offsetof(h.unclean),
		unsafe.Offsetof(h.place), unsafe.Offsetof(h.hand)) {
		for _, value := range []uint64{0, 1, 5, 4096, huge, huge << 32, 4096<<32 | 5, 4096<<32 | huge, 1 << 63} {
			f.Add(edit(editHeader, 0, o, value), int64(-1), false)
		}
	}
	var r record
	for _, o := range []uintptr{0, unsafe.Offsetof(r.next), unsafe.Offsetof(r.key), unsafe.Offsetof(r.charge),
		unsafe.Offsetof(r.place), unsafe.Offsetof(r.used), unsafe.Offsetof(r.tag)} {
		values := []uint64{0, 1, 10, 1<<32 | 10, huge, 1<<63 | stateValid, 2, 3, 4, 10<<32 | 10, 30<<32 | 11,
			huge << 32}
		if testing.Short() {
			values = values[:6]
		}
		for _, value := range values {
			f.Add(append(edit(editRecords, 10, byte(o), value), edit(editRecords, 11, byte(o), value)...), int64(-1),
				false)
		}
	}
	// chains and lists of free ones that lead to others, and in circles
	for _, value := range []uint64{0, 1, 10, 100, 4096, huge} {
		f.Add(append(edit(editBucket, 5, 0, value), edit(editBucket, 6, 0, value)...), int64(-1), false)
		f.Add(append(edit(editBucket, 5, 0, value), edit(editHeader, 0, byte(unsafe.Offsetof(h.free)/8), value)...),
			int64(-1), false)
		f.Add(append(edit(editRecords, uint16(value), byte(unsafe.Offsetof(r.next)), value),
			edit(editHeader, 0, byte(unsafe.Offsetof(h.free)/8), value)...), int64(-1), false)
	}
	f.Fuzz(func(t *testing.T, edits []byte, cut int64, raw bool) {
		index := append([]byte(nil), base...)
		if raw {
			index = edits
		} else {
			applyEdits(index, edits)
		}
		if cut >= 0 && cut < int64(len(index)) {
			index = index[:cut]
		}
		path := filepath.Join(inMemory(t), "stage")
		must(t, ok(lockfile.OpenRoot(path, ""))(t).Close())
		must(t, os.WriteFile(filepath.Join(path, "index"), index, 0o600))
		begun := time.Now()
		for round := range 2 {
			if !useEdited(t, path, round > 0) {
				break
			}
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// useEdited opens an index that may be anything, and does everything with it.
func useEdited(t *testing.T, path string, checked bool) (opened bool) {
	s := newStore()
	d := ok(lockfile.OpenRoot(path, ""))(t)
	defer d.Close()
	keep := func(o Object) bool { s.put(o); return o.Charge == unit && len(o.Name) <= maxTextLen }
	l, err := Open(context.Background(), d, s.free, keep, s.tidy)
	if err != nil {
		if checked {
			t.Errorf("it was opened before, and now: %v", err)
		}
		return false
	}
	defer l.Close()
	b := &testIndex{l, s, path, d}
	if checked {
		if _, err := audit(l); err != nil {
			t.Errorf("after the check: %v", err)
		}
	}
	fine := func(err error) {
		if err != nil && (checked || !errors.Is(err, ErrFull)) {
			t.Error(err)
		}
	}
	lim := Limits{Bytes: 1 << 62, Files: 1 << 62}
	use := func() {
		for n := range fuzzed + 3 {
			e, err := l.Find(keyOf(n))
			fine(err)
			if e != nil {
				e.SetChecked(time.Now())
				if n%3 == 0 {
					e.Discard()
				}
				if n%4 == 0 {
					_, err := e.Drop()
					fine(err)
				} else {
					e.Unpin()
				}
			}
			if e, err := l.FindLocked(keyOf(n)); e != nil {
				e.Unpin()
				fine(err)
			}
			if n%2 == 0 {
				o := object(n, 1)
				o.Name += strings.Repeat("x", 50*n)
				if e, err := b.publish(o, lim); err == nil {
					e.Unpin()
				} else if checked {
					t.Error(err)
				}
			}
		}
		count := 0
		fine(l.Each(func(Object) bool { count++; return true }))
	}
	use()
	left := 30
	_, err = l.Evict(func() bool { left--; return left < 0 })
	fine(err)
	use()
	_, err = l.Evict(func() bool { return false })
	fine(err)
	use()
	l.h.unclean.Store(1) // the next one checks it
	return true
}
