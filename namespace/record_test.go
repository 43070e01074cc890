package namespace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func exampleRecord() record {
	return record{
		ID: strings.Repeat("0a", 16), Key: "slurm:77.2", Name: "train", Number: 12, Host: "node1", PID: 4711, Start: 99,
		Since: time.Unix(1700000000, 0).UTC(), Command: "leat apply",
		Claims: []claim{{Path: "/data/a", Remote: "s3://bucket/a", Exclusive: true, Dev: 1 << 40, Ino: 1<<63 + 1},
			{Path: "/data/b\nc", File: true}},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	want := exampleRecord()
	b, err := encodeRecord(want, 300)
	if err != nil {
		t.Fatal(err)
	}
	got, table, slots, err := decodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if table != len(b) || table%tableAlign != 0 || slots != 300 {
		t.Errorf("table of %d at %d, %d bytes", slots, table, len(b))
	}
}

func TestRecordWithChangedByte(t *testing.T) {
	b, err := encodeRecord(exampleRecord(), minSlots)
	if err != nil {
		t.Fatal(err)
	}
	end := recordHead + int(binary.LittleEndian.Uint32(b[8:]))
	for at := range end {
		for _, flip := range []byte{1, 0x80, 0xff} {
			c := bytes.Clone(b)
			c[at] ^= flip
			if _, _, _, err := decodeRecord(c); !errors.Is(err, errRecord) {
				t.Fatalf("byte %d changed by %#x: %v", at, flip, err)
			}
		}
	}
	for n := range end {
		if _, _, _, err := decodeRecord(b[:n]); !errors.Is(err, errRecord) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func TestRecordWithTooManyDirectories(t *testing.T) {
	r := exampleRecord()
	r.Claims = make([]claim, maxRecordDirs)
	b, err := encodeRecord(r, minSlots)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _, err := decodeRecord(b); err != nil || len(got.Claims) != maxRecordDirs {
		t.Errorf("%d claims, %v", len(got.Claims), err)
	}
	r.Claims = make([]claim, maxRecordDirs+1)
	if _, err := encodeRecord(r, minSlots); err == nil {
		t.Error("too many are possible")
	}
	r.Claims = []claim{{Path: strings.Repeat("x", maxRecord)}}
	if _, err := encodeRecord(r, minSlots); err == nil {
		t.Error("too long ones are possible")
	}
}

// Whatever bytes there are: no panic, and what is accepted is within bounds and says the same when
// it is written again.
func FuzzDecodeRecord(f *testing.F) {
	b, err := encodeRecord(exampleRecord(), minSlots)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Add(b[:recordHead], true)
	f.Add([]byte(recordMagic), false)
	f.Add([]byte{}, true)
	for _, text := range []string{"", "{}", "null", "[]", `{"number":-1}`, `{"number":1000000}`,
		`{"claims":[{"dev":-1}]}`, `{"since":"never"}`, strings.Repeat("[", 10000)} {
		c := make([]byte, recordHead, recordHead+len(text))
		copy(c, recordMagic)
		binary.LittleEndian.PutUint32(c[8:], uint32(len(text)))
		binary.LittleEndian.PutUint32(c[12:], tableAlign)
		binary.LittleEndian.PutUint32(c[16:], 7)
		f.Add(append(c, text...), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend && len(b) >= recordHead { // a right checksum, to come behind it
			copy(b, recordMagic)
			length := min(int64(binary.LittleEndian.Uint32(b[8:])), int64(len(b)-recordHead))
			sum := crc32.Update(crc32.Checksum(b[:20], castagnoli), castagnoli, b[recordHead:recordHead+length])
			binary.LittleEndian.PutUint32(b[20:], sum)
		}
		r, table, slots, err := decodeRecord(b)
		if err != nil {
			if !errors.Is(err, errRecord) {
				t.Fatal(err)
			}
			return
		}
		if slots < 1 || slots > maxSlots || table < recordHead || table > 2*maxRecord || table%tableAlign != 0 ||
			r.Number < 0 || r.Number > maxNumber {
			t.Fatalf("table of %d at %d, %+v", slots, table, r)
		}
		again, err := encodeRecord(r, slots)
		if err != nil {
			return // more claims than we write
		}
		r2, _, slots2, err := decodeRecord(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, r2); diff != "" || slots2 != slots {
			t.Fatal(diff)
		}
	})
}
