package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"leat/internal/regular"
)

// cogFault says why the TIFF at path is no cloud-optimized GeoTIFF, by the rules of GDAL's
// validator: directories at the head, largest first; tiles; an overview's data before those of
// larger ones. It is empty for a COG. The error says that the file can't be read or is no TIFF.
func cogFault(path string) (string, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = os.Stat(path + ".ovr")
	return cogFaultAt(f, path, err == nil)
}

// cogFaultAt is cogFault for what r reads; beside says that there is a file of overviews beside it.
func cogFaultAt(r io.ReaderAt, name string, beside bool) (string, error) {
	if beside {
		return "its overviews are in a file of their own", nil
	}
	t := tiffScan{r: r}
	dirs, err := t.scan()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return t.fault(dirs), nil
}

// tiffScan reads the few tags that say how a TIFF is laid out. What a header claims is only
// believed within bounds.
type tiffScan struct {
	r     io.ReaderAt
	order binary.ByteOrder
	big   bool
}

type tiffDir struct {
	at, entries   int64 // offset, and that behind it
	width, height uint64
	subfile       uint64
	tiled         bool
	data          uint64 // offset of the first tile or strip that has one
}

const (
	scanMaxDirs    = 256
	scanMaxEntries = 4096
	scanMaxOffsets = 1 << 20 // looked through for the first tile with data
)

var errNotTIFF = errors.New("no TIFF, or a damaged one")

func (t *tiffScan) scan() ([]tiffDir, error) {
	var head [16]byte
	n, _ := t.r.ReadAt(head[:], 0)
	if n < 8 {
		return nil, errNotTIFF
	}
	switch string(head[:2]) {
	case "II":
		t.order = binary.LittleEndian
	case "MM":
		t.order = binary.BigEndian
	default:
		return nil, errNotTIFF
	}
	next := int64(t.order.Uint32(head[4:]))
	switch t.order.Uint16(head[2:]) {
	case 42:
	case 43:
		if n < 16 {
			return nil, errNotTIFF
		}
		t.big, next = true, int64(t.order.Uint64(head[8:]))
	default:
		return nil, errNotTIFF
	}
	var dirs []tiffDir
	for next > 0 && len(dirs) < scanMaxDirs {
		d, after, err := t.dir(next)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
		next = after
	}
	if len(dirs) == 0 {
		return nil, errNotTIFF
	}
	return dirs, nil
}

// dir reads the directory at an offset and returns where the next one is.
func (t *tiffScan) dir(at int64) (d tiffDir, next int64, err error) {
	countSize, entrySize, offsetSize := 2, 12, 4
	if t.big {
		countSize, entrySize, offsetSize = 8, 20, 8
	}
	buf := make([]byte, countSize)
	if _, err := t.r.ReadAt(buf, at); err != nil {
		return d, 0, errNotTIFF
	}
	n := t.number(buf, countSize)
	if n > scanMaxEntries {
		return d, 0, errNotTIFF
	}
	size := int(n)*entrySize + offsetSize
	buf = make([]byte, size)
	if _, err := t.r.ReadAt(buf, at+int64(countSize)); err != nil {
		return d, 0, errNotTIFF
	}
	d.at, d.entries = at, at+int64(countSize+size)
	for i := range int(n) {
		e := buf[i*entrySize : (i+1)*entrySize]
		tag, typ := t.order.Uint16(e), t.order.Uint16(e[2:])
		count, value := t.number(e[4:], offsetSize), e[4+offsetSize:]
		width := map[uint16]int{3: 2, 4: 4, 16: 8}[typ]
		if width == 0 || count == 0 {
			continue
		}
		switch tag {
		case 254:
			d.subfile = t.number(value, width)
		case 256:
			d.width = t.number(value, width)
		case 257:
			d.height = t.number(value, width)
		case 273, 324:
			d.tiled = tag == 324
			if d.data, err = t.firstOffset(value, count, width, offsetSize); err != nil {
				return d, 0, err
			}
		}
	}
	return d, int64(t.number(buf[size-offsetSize:], offsetSize)), nil
}

// firstOffset finds the first offset that is not 0: tiles without data have none.
func (t *tiffScan) firstOffset(value []byte, count uint64, width, offsetSize int) (uint64, error) {
	list := value
	if count*uint64(width) > uint64(offsetSize) {
		at := int64(t.number(value, offsetSize))
		list = make([]byte, 4096/width*width)
		for left := min(count, scanMaxOffsets); left > 0; {
			part := list[:min(left*uint64(width), uint64(len(list)))]
			if _, err := t.r.ReadAt(part, at); err != nil {
				return 0, errNotTIFF
			}
			if v := t.firstIn(part, width); v != 0 {
				return v, nil
			}
			at += int64(len(part))
			left -= uint64(len(part) / width)
		}
		return 0, nil
	}
	return t.firstIn(list[:count*uint64(width)], width), nil
}

func (t *tiffScan) firstIn(list []byte, width int) uint64 {
	for ; len(list) >= width; list = list[width:] {
		if v := t.number(list, width); v != 0 {
			return v
		}
	}
	return 0
}

func (t *tiffScan) number(b []byte, width int) uint64 {
	switch width {
	case 2:
		return uint64(t.order.Uint16(b))
	case 4:
		return uint64(t.order.Uint32(b))
	}
	return t.order.Uint64(b)
}

// fault applies the rules.
func (t *tiffScan) fault(dirs []tiffDir) string {
	main := dirs[0]
	start := int64(8)
	if t.big {
		start = 16
	}
	// GDAL writes how the file is laid out between header and first directory.
	var ghost [43]byte
	t.r.ReadAt(ghost[:], start)
	if text, ok := strings.CutPrefix(string(ghost[:]), "GDAL_STRUCTURAL_METADATA_SIZE="); ok {
		var n int64
		if _, err := fmt.Sscanf(text, "%d bytes", &n); err == nil && n >= 0 && n < 1<<16 {
			start += int64(len(ghost)) + n
			start += start & 1
		}
	}
	if main.at != start {
		return "its first directory is not at the head of the file"
	}
	large := main.width > 512 || main.height > 512
	if large && !main.tiled {
		return "it is stored in strips, not in tiles"
	}
	last, levels := main, 1
	for i, d := range dirs[1:] {
		if d.at < dirs[i].at {
			return "its directories are not in order"
		}
		if d.subfile&4 != 0 {
			continue // a mask
		}
		if d.subfile&1 == 0 {
			return "it holds several images"
		}
		if d.width > last.width || d.height > last.height {
			return "its overviews are not ordered by size"
		}
		if (d.width > 512 || d.height > 512) && !d.tiled {
			return "an overview is stored in strips, not in tiles"
		}
		if d.data != 0 && last.data != 0 && d.data > last.data {
			return "the data of an overview come after those of a larger one"
		}
		last = d
		levels++
	}
	if head := dirs[len(dirs)-1].entries; last.data != 0 && last.data < uint64(head) {
		return "data come before the last directory"
	}
	if large && levels == 1 {
		return "it has no overviews"
	}
	return ""
}
