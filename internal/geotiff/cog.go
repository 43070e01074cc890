package geotiff

import (
	"bytes"
	"fmt"
	"strings"

	"leat/internal/tiff"
)

// Limits of what COGFault reads and accepts.
const (
	maxStripSide    = 512     // a larger image of a COG has tiles and overviews
	maxSearched     = 1 << 20 // entries of a tile table that are searched for a tile with data
	maxDescription  = 1 << 16 // bytes of GDAL's description of the layout
	descriptionHead = "GDAL_STRUCTURAL_METADATA_SIZE="
	descriptionSize = 43 // bytes of the head, the size and the line's end
)

// COGFault returns why the file is not a cloud-optimized GeoTIFF by the rules of GDAL's validator,
// "" if it is: directories come first, the largest image first, and the data of an overview come
// before those of larger ones. It reads directories again.
func (f *File) COGFault() (string, error) {
	for _, l := range f.found {
		if l.im.container != f.im.container {
			return "its overviews are in another file", nil
		}
	}
	c, at, err := newContainer(f.im.r, f.im.container.size, f.im.name)
	if err != nil {
		return "", err
	}
	dirs, err := c.readChain(at)
	if err != nil {
		return "", err
	}
	images := make([]cogImage, len(dirs))
	for i, d := range dirs {
		if images[i], err = newCOGImage(d); err != nil {
			return "", err
		}
	}
	start, err := c.cogStart()
	if err != nil {
		return "", err
	}
	return cogFault(images, start), nil
}

// cogImage holds what the rules check of one directory.
type cogImage struct {
	at, end       int64 // of the directory
	width, height uint64
	kind          uint64 // NewSubfileType
	tiled         bool
	data          int64 // offset of the first tile that has data; 0 if none has
}

func newCOGImage(d *directory) (im cogImage, err error) {
	im.at, im.end = d.at, d.end
	for _, v := range []struct {
		tag uint16
		to  *uint64
	}{{tiff.TagNewSubfileType, &im.kind}, {tiff.TagImageWidth, &im.width}, {tiff.TagImageLength, &im.height}} {
		if *v.to, err = d.uint(v.tag, 0); err != nil {
			return im, err
		}
	}
	offsets, ok := d.fields[tiff.TagTileOffsets]
	if im.tiled = ok; !ok {
		offsets = d.fields[tiff.TagStripOffsets]
	}
	im.data, err = d.firstData(offsets)
	return im, err
}

// firstData returns the first offset in a tile table that is not 0.
func (d *directory) firstData(table field) (int64, error) {
	left := min(table.count, maxSearched)
	b := make([]byte, min(left, tilesPerChunk)*uint64(table.size()))
	for at := table.at; left > 0; at += int64(len(b)) {
		n := min(left, tilesPerChunk)
		b = b[:n*uint64(table.size())]
		if err := d.readAt(b, at); err != nil {
			return 0, err
		}
		for i := range int(n) {
			if v, ok := d.uintAt(b, table.typ, i); !ok {
				return 0, d.damaged("a tile table has no integers")
			} else if v != 0 {
				return int64(v), nil
			}
		}
		left -= n
	}
	return 0, nil
}

// cogStart returns where the first directory of a COG begins: after the header and GDAL's
// description of the layout, if there is one.
func (c *container) cogStart() (int64, error) {
	start := int64(8)
	if c.big {
		start = 16
	}
	head := make([]byte, max(0, min(descriptionSize, c.size-start)))
	if err := c.readAt(head, start); err != nil {
		return 0, err
	}
	text, ok := strings.CutPrefix(string(bytes.TrimRight(head, "\x00")), descriptionHead)
	if !ok {
		return start, nil
	}
	var n int64
	if _, err := fmt.Sscanf(text, "%d bytes", &n); err != nil || n < 0 || n >= maxDescription {
		return start, nil
	}
	start += descriptionSize + n
	return start + start%2, nil
}

// cogFault applies the rules. There is at least one image.
func cogFault(images []cogImage, start int64) string {
	main := images[0]
	if main.at != start {
		return "its first directory is not at the head of the file"
	}
	large := main.width > maxStripSide || main.height > maxStripSide
	if large && !main.tiled {
		return "it is stored in strips, not in tiles"
	}
	last, levels := main, 1
	for i, im := range images[1:] {
		switch {
		case im.at < images[i].at:
			return "its directories are not in order"
		case im.kind&4 != 0: // a mask
			continue
		case im.kind&1 == 0:
			return "it holds several images"
		case im.width > last.width || im.height > last.height:
			return "its overviews are not ordered by size"
		case (im.width > maxStripSide || im.height > maxStripSide) && !im.tiled:
			return "an overview is stored in strips, not in tiles"
		case im.data != 0 && last.data != 0 && im.data > last.data:
			return "the data of an overview come after those of a larger one"
		}
		last = im
		levels++
	}
	if end := images[len(images)-1].end; last.data != 0 && last.data < end {
		return "data come before the last directory"
	}
	if large && levels == 1 {
		return "it has no overviews"
	}
	return ""
}
