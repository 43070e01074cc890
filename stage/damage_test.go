//go:build linux

package stage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leat/stage/internal/store"
)

// Where a record of the index has its numbers, see docs/format/stage.md.
const (
	firstRecord  = 1052672 + 256
	recordSum    = 4 // above the state: 4 bytes, 0 in records of earlier versions
	recordSize   = 48
	recordCharge = 56
	recordOffset = 72
)

// editIndex changes an 8-byte number of the first object of a stage that nobody has open.
func editIndex(t *testing.T, dir string, at int64, v int64) {
	t.Helper()
	f := ok(os.OpenFile(filepath.Join(dir, "stage", "index"), os.O_RDWR, 0))(t)
	defer f.Close()
	_ = ok(f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(v)), firstRecord+at))(t)
}

func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{5000, 3 * mib} {
		for name, damage := range map[string]struct{ at, to int64 }{
			"huge size":              {recordSize, 1 << 45},
			"largest size":           {recordSize, 1<<63 - 1},
			"negative size":          {recordSize, -1},
			"smaller size":           {recordSize, size - 1},
			"size in the last block": {recordSize, size + 1},
			"charge":                 {recordCharge, 1 << 45},
			"place":                  {recordOffset, 1 << 45},
			"place within a block":   {recordOffset, 4999},
			"place at a segment end": {recordOffset, store.SegmentSize},
		} {
			for _, sum := range []bool{true, false} {
				if !sum && size < mib && (name == "smaller size" || name == "size in the last block") {
					continue // only the checksum shows it
				}
				t.Run(fmt.Sprintf("%s of %d checksum %v", name, size, sum), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					s := small("damaged", size)
					p := ok(Open(context.Background(), dir, quick(Options{})))(t)
					want := got(t, p, s, "a")
					must(t, p.Close())
					editIndex(t, dir, damage.at, damage.to)
					if !sum {
						f := ok(os.OpenFile(filepath.Join(dir, "stage", "index"), os.O_RDWR, 0))(t)
						_ = ok(f.WriteAt(make([]byte, 4), firstRecord+recordSum))(t)
						must(t, f.Close())
					}
					p = ok(Open(context.Background(), dir, quick(Options{})))(t)
					if b := got(t, p, s, "a"); !bytes.Equal(b, want) {
						t.Errorf("%d other bytes", len(b))
					}
					if reads, _, _ := s.count("a"); reads != 2 {
						t.Errorf("the source was read %d times, expected 2", reads)
					}
					_ = ok(p.Trim(t.Context(), 0))(t)
					must(t, p.Close())
					// The next one alone removes what the damaged record had.
					p = pool(t, dir, Options{})
					_ = ok(p.Trim(t.Context(), 0))(t)
					if u := wantDisk(t, p); u.Bytes != 0 || u.Objects != 0 {
						t.Errorf("%d bytes of %d objects are left", u.Bytes, u.Objects)
					}
				})
			}
		}
	}
}

func TestImpossibleSize(t *testing.T) {
	t.Parallel()
	const most = 1<<63 - 1
	if c := store.Charge(most); c <= 0 || c%store.Block != 0 {
		t.Errorf("the largest size takes %d bytes", c)
	}
	s := newSource("liar").put("a", object{size: 3 * mib, lie: most - 3*mib})
	p := pool(t, t.TempDir(), Options{MaxBytes: most, RangeBytes: mib})
	l := p.Prefetch(s, "a")
	if b, err := l.Bytes(t.Context()); err == nil {
		t.Errorf("%d bytes of an object that announces %d", len(b), int64(most))
	}
}
