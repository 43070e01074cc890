package geotiff

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"testing"

	"leat/internal/tiff"
)

// tag is a directory entry for handmade. Text has one value per byte.
type tag struct {
	id, typ uint16
	values  []uint64
}

// handmade returns a classic TIFF of one directory: header, tiles, values, directory.
func handmade(order binary.AppendByteOrder, tags []tag, offsetTag, countTag uint16, tiles [][]byte) []byte {
	return handmadeChain(order, [][]tag{tags}, offsetTag, countTag, [][][]byte{tiles})
}

// handmadeChain returns a TIFF of several directories, each with its own tiles.
func handmadeChain(order binary.AppendByteOrder, dirs [][]tag, offsetTag, countTag uint16, tiles [][][]byte) []byte {
	mark := []byte("II")
	if isBig(order.(binary.ByteOrder)) {
		mark = []byte("MM")
	}
	out := order.AppendUint16(mark, 42)
	link := len(out)
	out = order.AppendUint32(out, 0)
	for k, tags := range dirs {
		var offsets, counts []uint64
		for _, tile := range tiles[k] {
			offsets, counts = append(offsets, uint64(len(out))), append(counts, uint64(len(tile)))
			out = append(out, tile...)
		}
		// The first of two equal tags counts, so given tags take precedence.
		tags = append(slices.Clone(tags), tag{offsetTag, tiff.TypeLong, offsets}, tag{countTag, tiff.TypeLong, counts})
		sort.SliceStable(tags, func(i, j int) bool { return tags[i].id < tags[j].id })
		var entries []byte
		for _, t := range tags {
			var v []byte
			for _, x := range t.values {
				switch tiff.TypeSizes[t.typ] {
				case 1:
					v = append(v, byte(x))
				case 2:
					v = order.AppendUint16(v, uint16(x))
				case 4:
					v = order.AppendUint32(v, uint32(x))
				case 8:
					v = order.AppendUint64(v, x)
				}
			}
			entries = order.AppendUint16(entries, t.id)
			entries = order.AppendUint16(entries, t.typ)
			entries = order.AppendUint32(entries, uint32(len(t.values)))
			if len(v) > 4 {
				entries = order.AppendUint32(entries, uint32(len(out)))
				out = append(out, v...)
			} else {
				entries = append(entries, append(v, 0, 0, 0, 0)[:4]...)
			}
		}
		order.(binary.ByteOrder).PutUint32(out[link:], uint32(len(out)))
		out = order.AppendUint16(out, uint16(len(tags)))
		out = append(out, entries...)
		link = len(out)
		out = order.AppendUint32(out, 0)
	}
	return out
}

// plain returns the tags of an image of one strip.
func plain(width, height, bits, samples, format, compression uint64) []tag {
	return []tag{
		{tiff.TagImageWidth, tiff.TypeLong, []uint64{width}}, {tiff.TagImageLength, tiff.TypeLong, []uint64{height}},
		{tiff.TagBitsPerSample, tiff.TypeShort, repeat(bits, int(samples))},
		{tiff.TagSamplesPerPixel, tiff.TypeShort, []uint64{samples}},
		{tiff.TagSampleFormat, tiff.TypeShort, []uint64{format}},
		{tiff.TagCompression, tiff.TypeShort, []uint64{compression}},
		{tiff.TagPhotometric, tiff.TypeShort, []uint64{tiff.PhotometricMinIsBlack}},
	}
}

// openBytes opens a TIFF in memory.
func openBytes(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := openReader(bytes.NewReader(b), int64(len(b)), "memory.tif")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func repeat(v uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = v
	}
	return out
}
