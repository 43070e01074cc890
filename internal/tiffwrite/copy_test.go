package tiffwrite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestHeadReader reads the lengths before small tiles: of ones close together in few reads, also
// where neighbours changed places, and of distant ones without the bytes between them.
func TestHeadReader(t *testing.T) {
	const tiles, size = 2000, 100
	for _, c := range []struct {
		name            string
		gap             int64
		swapped         bool
		maxReads, bytes int
	}{
		{"adjacent", 0, false, 10, 10 * headsRead},
		{"swapped", 40, true, 15, 15 * headsRead},
		{"distant", 40 << 10, false, tiles, tiles * frameHead},
		{"distant and swapped", 40 << 10, true, tiles, tiles * frameHead},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := make([]byte, tiles*(size+c.gap))
			for i := range int64(tiles) {
				binary.LittleEndian.PutUint32(data[i*(size+c.gap):], uint32(i))
			}
			src := &countingReader{ReaderAt: bytes.NewReader(data)}
			h := headReader{src: src}
			for i := range int64(tiles) {
				if c.swapped {
					i ^= 1
				}
				head, err := h.read(piece{src: i * (size + c.gap), bytes: size})
				if err != nil || binary.LittleEndian.Uint32(head) != uint32(i) {
					t.Fatalf("tile %d: %v, %v", i, head, err)
				}
			}
			// The first tile is close to the beginning of the file.
			if src.reads > c.maxReads || src.bytes > c.bytes+headsRead {
				t.Errorf("%d reads of %d bytes", src.reads, src.bytes)
			}
			if _, err := h.read(piece{src: int64(len(data)) - frameHead + 1, bytes: size}); !errors.Is(err, io.EOF) {
				t.Errorf("beyond the end: %v", err)
			}
		})
	}
}

// countingReader counts reads and their bytes.
type countingReader struct {
	io.ReaderAt
	reads, bytes int
}

func (r *countingReader) ReadAt(b []byte, at int64) (int, error) {
	r.reads++
	r.bytes += len(b)
	return r.ReaderAt.ReadAt(b, at)
}

// TestCopyRuns copies runs of sizes and places around those that are mapped, from a file that is
// whole, ends within the run, or ends before it.
func TestCopyRuns(t *testing.T) {
	const size, to = runBytes + 3*leastMapped, 77
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	dir := t.TempDir()
	src, err := os.Create(filepath.Join(dir, "src"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for _, p := range []piece{
		{src: 0, bytes: 1}, {src: 4095, bytes: leastMapped - 1}, {src: 4096, bytes: leastMapped},
		{src: 1, bytes: leastMapped + 1}, {src: 4097, bytes: runBytes + leastMapped + 5},
		{src: size - leastMapped, bytes: leastMapped},
	} {
		for _, missing := range []int64{0, 1, 4096, leastMapped, size} {
			if err := src.Truncate(0); err != nil {
				t.Fatal(err)
			}
			if _, err := src.WriteAt(data[:max(0, p.src+p.bytes-missing)], 0); err != nil {
				t.Fatal(err)
			}
			dst, err := os.Create(filepath.Join(dir, "dst"))
			if err != nil {
				t.Fatal(err)
			}
			p.dst = to
			c := copier{dst: dst, src: src, writing: new(sync.Mutex)}
			err = c.copy(t.Context(), p)
			if missing > 0 {
				if err == nil || !strings.Contains(err.Error(), "ends within the tile") {
					t.Errorf("%+v, %d bytes missing: %v", p, missing, err)
				}
			} else if got, rerr := os.ReadFile(dst.Name()); err != nil || rerr != nil ||
				!bytes.Equal(got[to:], data[p.src:][:p.bytes]) {
				t.Errorf("%+v: %v, %v, %d bytes", p, err, rerr, len(got))
			}
			dst.Close()
		}
	}
}
