//go:build linux

package cache

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// pfio: an entry that is wrong stays wrong.
func TestADamagedRecordIsAMissAndTheNextPutMendsIt(t *testing.T) {
	eachKind(t, func(t *testing.T, o *Options) {
		for _, at := range []int64{0, 8, 16, 20, 24, 32, 60, recordHead, recordHead + 4} {
			if o.Verify == VerifyNever && at >= recordHead {
				continue // that is what it means
			}
			c := create(t, 10, o)
			put(t, c, 1, "entry")
			put(t, c, 2, "other")
			reader := attachTo(t, c, &Options{Verify: o.Verify})
			damage(t, c, slotOf(t, c, 1)+at)
			wantMiss(t, reader, 1)
			wantEntry(t, reader, 2, "other")
			if rep := check(t, c); rep.OK() || rep.Bad != 1 || rep.Filled != 1 || rep.Worst[0] != 1 {
				t.Errorf("byte %d: %+v", at, rep)
			}
			if !put(t, reader, 1, "mended") || put(t, reader, 1, "again") {
				t.Errorf("byte %d: not mended, or twice", at)
			}
			wantEntry(t, reader, 1, "mended")
			wantEntry(t, c, 1, "mended")
			if s := stats(t, c); s.Repaired != 1 || s.Bad == 0 {
				t.Errorf("%+v", s)
			}
			if rep := check(t, c); !rep.OK() || rep.Filled != 2 || rep.DeadBytes != 128 {
				t.Errorf("byte %d: %+v", at, rep)
			}
		}
	})
}

func TestWhenAnEntryIsVerifiedIsAnOption(t *testing.T) {
	for verify, sees := range map[Verify]bool{VerifyFirst: false, VerifyAlways: true, VerifyNever: false} {
		c := create(t, 10, &Options{Verify: verify})
		put(t, c, 1, "entry")
		wantEntry(t, c, 1, "entry")
		damage(t, c, slotOf(t, c, 1)+recordHead)
		if _, err := c.Get(1); errors.Is(err, ErrMiss) != sees {
			t.Errorf("%d, touched before: %v", verify, err)
		}
		fresh := attachTo(t, c, &Options{Verify: verify})
		if _, err := fresh.Get(1); errors.Is(err, ErrMiss) != (verify != VerifyNever) {
			t.Errorf("%d, not touched before: %v", verify, err)
		}
	}
}

// Someone cuts the file off: every touch beyond its end is a signal.
func TestAFileThatIsCutOffIsAMissAndNeverASignal(t *testing.T) {
	eachKind(t, func(t *testing.T, o *Options) {
		for _, left := range []int64{1 << 20, 4096 + 8*100_000, 4096, 0} {
			c := ok(Create(100_000, &Options{Dir: inMemory(t), Verify: o.Verify}))(t)
			put(t, c, 5, string(make([]byte, 1<<20)))
			put(t, c, 99_000, "entry")
			wantEntry(t, c, 99_000, "entry")
			f := ok(c.File())(t)
			must(t, f.Truncate(left))
			must(t, f.Close())
			wantMiss(t, c, 99_000)
			_, errPut := c.Put(7, []byte("entry"))
			_, errPut2 := c.Put(99_000, []byte("entry"))
			_, errStats := c.Stats()
			_, errCheck := c.Check(t.Context())
			errFreeze := c.Freeze()
			errPreserve := c.Preserve(filepath.Join(t.TempDir(), "x"), false)
			t.Log(left, errPut, errPut2, errStats, errCheck, errFreeze, errPreserve) // whatever they are
			must(t, c.Close())
		}
	})
}

func TestAFaultWithinAViewIsAMiss(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 1, string(make([]byte, 1<<20)))
	begun := false
	err := c.View(1, func(b []byte) error {
		begun = true
		f := ok(c.File())(t)
		must(t, f.Truncate(8192))
		must(t, f.Close())
		sum := byte(0)
		for _, x := range b {
			sum += x
		}
		t.Error("all of it was read", sum)
		return nil
	})
	wantErr(t, err, ErrMiss)
	if s := stats(t, c); s.Faults != 1 || !begun {
		t.Errorf("%+v", s)
	}
	// The same call in a View of another cache, which is none of its faults.
	outer := create(t, 10, nil)
	put(t, outer, 1, "entry")
	must(t, outer.View(1, func([]byte) error {
		wantErr(t, c.View(1, func(b []byte) error { return fmt.Errorf("read %d", b[len(b)-1]) }), ErrMiss)
		return nil
	}))
}
