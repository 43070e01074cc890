package tiffwrite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
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
