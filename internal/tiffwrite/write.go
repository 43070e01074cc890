package tiffwrite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"syscall"

	"leat/internal/tiff"
)

// TileRef is the position of an encoded tile in the source. It spans exactly what Encode appended,
// frame included.
type TileRef struct{ Offset, Bytes int64 }

// TileSource returns the positions of tiles. level is 0 for full resolution and 1 and up for the
// overviews. index counts row by row within a plane, planes one after the other, see
// [FileSpec.TileIndex]. Write calls it several times per tile, from one goroutine at a time, and
// keeps no table of its own.
type TileSource func(level, index int) TileRef

// Write writes a file to dst, which must be empty, and returns its length. It copies the encoded
// tiles from src, at the positions that tiles returns. The order is: header, directories from full
// resolution to the smallest overview, tiles of the smallest overview to those of full resolution,
// row by row. The file depends only on the spec and the tiles.
//
// An error names spec.Path; dst then holds a partial file, which the caller must remove. The caller
// also publishes the file. The read and write offsets of both files are not used. Write returns
// ctx's error soon after ctx ends.
func Write(ctx context.Context, dst *os.File, spec *FileSpec, src *os.File, tiles TileSource) (written int64,
	err error) {
	l, err := newLayout(spec, tiles)
	if err != nil {
		return 0, err
	}
	if err := l.write(ctx, dst, src); err != nil {
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return 0, fmt.Errorf("%s: the disk is full: the file needs %d bytes (%.1f MiB): %w",
				spec.Path, l.total, float64(l.total)/(1<<20), err)
		case errors.Is(err, syscall.EFBIG):
			return 0, fmt.Errorf("%s: the file needs %d bytes, more than the file system or the process's limit (ulimit -f) allows (%w)", spec.Path, l.total, err)
		}
		return 0, fmt.Errorf("%s: %w", spec.Path, err)
	}
	return l.total, nil
}

// Single returns a file of one tile, encoded by an [Encoder].
func Single(spec *FileSpec, tile []byte) ([]byte, error) {
	l, err := newLayout(spec, func(int, int) TileRef { return TileRef{Bytes: int64(len(tile))} })
	if err != nil {
		return nil, err
	}
	return append(l.header(), tile...), nil
}

// layout is a file with the offsets of all its parts.
type layout struct {
	spec  *FileSpec
	big   bool
	dirs  []*outDirectory
	total int64
	data  int64 // offset of the first tile
	tiles TileSource
}

// piece is one framed tile, or several adjacent ones: its offsets in source and file, and its size.
type piece struct{ src, dst, bytes int64 }

func newLayout(spec *FileSpec, tiles TileSource) (*layout, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	l := &layout{spec: spec, tiles: tiles}
	var bytes int64
	for level := range 1 + len(spec.Levels) {
		d, err := spec.directory(level)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", spec.Path, err)
		}
		l.dirs = append(l.dirs, d)
		d.tiles = spec.tilesOf(level)
		for i := range d.tiles {
			t := tiles(level, i)
			if t.Offset < 0 || t.Bytes < FrameBytes || t.Bytes > math.MaxUint32 || bytes > math.MaxInt64-t.Bytes {
				return nil, fmt.Errorf("%s: tile %d of level %d: invalid position %d or size %d", spec.Path, i,
					level, t.Offset, t.Bytes)
			}
			d.bytes += t.Bytes
			bytes += t.Bytes
		}
	}
	l.big = spec.BigTIFF || l.headerBytes(false)+bytes > math.MaxUint32
	l.data = l.headerBytes(l.big)
	l.total = l.data + bytes
	l.place()
	return l, nil
}

// place sets the offsets of the tiles, smallest level first.
func (l *layout) place() {
	at := l.data
	for _, d := range slices.Backward(l.dirs) {
		d.first = at
		at += d.bytes
	}
}

// pieces yields the tiles in the order of the file.
func (l *layout) pieces() iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for _, d := range slices.Backward(l.dirs) {
			at := d.first
			for i := range d.tiles {
				t := l.tiles(d.level, i)
				if !yield(piece{t.Offset, at, t.Bytes}) {
					return
				}
				at += t.Bytes
			}
		}
	}
}

// ghostArea is the text between header and first directory, from which GDAL recognizes the layout
// of the file (LAYOUT=COG). The blank after NO leaves space for YES.
var ghostArea = func() string {
	const text = "LAYOUT=IFDS_BEFORE_DATA\nBLOCK_ORDER=ROW_MAJOR\nBLOCK_LEADER=SIZE_AS_UINT4\n" +
		"BLOCK_TRAILER=LAST_4_BYTES_REPEATED\nKNOWN_INCOMPATIBLE_EDITION=NO\n "
	return fmt.Sprintf("GDAL_STRUCTURAL_METADATA_SIZE=%06d bytes\n", len(text)) + text
}()

// form holds the sizes that differ between classic TIFF and BigTIFF.
type form struct {
	header, count, entry, word int64
}

func formOf(big bool) form {
	if big {
		return form{16, 8, 20, 8}
	}
	return form{8, 2, 12, 4}
}

// even rounds n up to an even number. Directories and values start at even offsets.
func even(n int64) int64 { return n + n&1 }

// firstDirectory returns the offset of the first directory.
func firstDirectory(f form) int64 { return even(f.header + int64(len(ghostArea))) }

// directoryBytes returns the size of a directory and its values, without the tables of its tiles.
func (d *outDirectory) directoryBytes(f form) int64 {
	n := f.count + int64(len(d.entries)+2)*f.entry + f.word
	for _, e := range d.entries {
		if b := int64(len(e.data)); b > f.word {
			n += even(b)
		}
	}
	return even(n)
}

// tableBytes returns the sizes of the two tables of a directory's tiles. They follow all
// directories, so that these are close together; a table of one tile is inside its entry. Sizes of
// tiles have 32 bits in both forms.
func (d *outDirectory) tableBytes(f form) (offsets, sizes int64) {
	n := int64(d.tiles)
	if n > 1 {
		offsets = n * f.word
	}
	if 4*n > f.word {
		sizes = even(4 * n)
	}
	return offsets, sizes
}

// headerBytes returns the number of bytes before the first tile.
func (l *layout) headerBytes(big bool) int64 {
	f := formOf(big)
	n := firstDirectory(f)
	for _, d := range l.dirs {
		offsets, sizes := d.tableBytes(f)
		n += d.directoryBytes(f) + offsets + sizes
	}
	return n
}

// header returns the bytes before the first tile.
func (l *layout) header() []byte {
	f := formOf(l.big)
	le := binary.LittleEndian
	word := func(b []byte, v int64) []byte {
		if l.big {
			return le.AppendUint64(b, uint64(v))
		}
		return le.AppendUint32(b, uint32(v))
	}
	first := firstDirectory(f)
	out := make([]byte, 0, l.data)
	if l.big {
		out = append(out, 'I', 'I', 43, 0, 8, 0, 0, 0)
	} else {
		out = append(out, 'I', 'I', 42, 0)
	}
	out = append(word(out, first), ghostArea...)
	out = pad(out)
	tables := first
	for _, d := range l.dirs {
		tables += d.directoryBytes(f)
	}
	for k, d := range l.dirs {
		start := int64(len(out))
		next := start + d.directoryBytes(f)
		offsetTable, sizeTable := l.tableEntries(d, f)
		entries := append(d.entries[:len(d.entries):len(d.entries)], offsetTable, sizeTable)
		(&outDirectory{entries: entries}).sort()
		if l.big {
			out = le.AppendUint64(out, uint64(len(entries)))
		} else {
			out = le.AppendUint16(out, uint16(len(entries)))
		}
		values := start + f.count + int64(len(entries))*f.entry + f.word
		var behind []byte
		for _, e := range entries {
			out = le.AppendUint16(out, e.tag)
			out = le.AppendUint16(out, e.typ)
			out = word(out, int64(e.count))
			switch {
			case e.data == nil: // a table of tiles
				offsets, sizes := d.tableBytes(f)
				out = word(out, tables)
				if e.tag == tiff.TagTileOffsets {
					tables += offsets
				} else {
					tables += sizes
				}
			case int64(len(e.data)) <= f.word:
				out = append(out, e.data...)
				out = append(out, make([]byte, f.word-int64(len(e.data)))...)
			default:
				out = word(out, values+int64(len(behind)))
				behind = pad(append(behind, e.data...))
			}
		}
		if k == len(l.dirs)-1 {
			next = 0
		}
		out = append(word(out, next), behind...)
		out = pad(out)
	}
	for _, d := range l.dirs {
		offsets, sizes := d.tableBytes(f)
		if offsets > 0 {
			out = l.appendOffsets(out, d)
		}
		if sizes > 0 {
			out = pad(l.appendSizes(out, d))
		}
	}
	if int64(len(out)) != l.data {
		panic(fmt.Sprintf("header has %d bytes instead of %d", len(out), l.data))
	}
	return out
}

// tableEntries returns the entries of the tiles' offsets and sizes, without data where the table
// follows the directories.
func (l *layout) tableEntries(d *outDirectory, f form) (offsets, sizes outEntry) {
	typ := uint16(tiff.TypeLong)
	if l.big {
		typ = tiff.TypeLong8
	}
	offsets = outEntry{tiff.TagTileOffsets, typ, d.tiles, nil}
	sizes = outEntry{tiff.TagTileByteCounts, tiff.TypeLong, d.tiles, nil}
	offsetBytes, sizeBytes := d.tableBytes(f)
	if offsetBytes == 0 {
		offsets.data = l.appendOffsets([]byte{}, d)
	}
	if sizeBytes == 0 {
		sizes.data = l.appendSizes([]byte{}, d)
	}
	return offsets, sizes
}

// appendOffsets appends the offsets of the tiles in the file, after their frames' lengths.
func (l *layout) appendOffsets(out []byte, d *outDirectory) []byte {
	at := d.first + frameHead
	for i := range d.tiles {
		if l.big {
			out = binary.LittleEndian.AppendUint64(out, uint64(at))
		} else {
			out = binary.LittleEndian.AppendUint32(out, uint32(at))
		}
		at += l.tiles(d.level, i).Bytes
	}
	return out
}

// appendSizes appends the sizes of the tiles without their frames.
func (l *layout) appendSizes(out []byte, d *outDirectory) []byte {
	for i := range d.tiles {
		out = binary.LittleEndian.AppendUint32(out, uint32(l.tiles(d.level, i).Bytes-FrameBytes))
	}
	return out
}

func pad(b []byte) []byte {
	if len(b)%2 != 0 {
		return append(b, 0)
	}
	return b
}
