package geotiff

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"leat/internal/driver"
	"leat/internal/tiff"
	"leat/raster"
)

// Limits on the memory and time that a header can cost. No known writer reaches them.
const (
	maxDirectories = 1024     // overviews and masks come early; further pages of a long stack are not read
	maxEntries     = 1024     // of one directory
	maxTextBytes   = 16 << 20 // of one text tag
	maxValues      = 1 << 20  // of one tag that is read as a whole (tile tables are not)
)

// container is an open TIFF: the source and the byte order of its bytes.
type container struct {
	name  string // as the user gave it, for messages
	r     io.ReaderAt
	size  int64
	order binary.ByteOrder
	big   bool
}

// field is a directory entry. Its values are at byte at of the file, which is inside the entry if
// they fit there.
type field struct {
	typ   uint16
	count uint64
	at    int64
}

// directory is one image file directory (IFD).
type directory struct {
	*container
	at     int64
	end    int64 // after the offset of the next directory
	next   int64
	fields map[uint16]field
}

// damaged returns the error of a damaged file, which wraps raster.ErrFormat.
func (c *container) damaged(format string, args ...any) error {
	return fmt.Errorf("%s: %s: the file is damaged or was cut short (%w)", c.name,
		fmt.Sprintf(format, args...), raster.ErrFormat)
}

// unsupported returns the error of a valid file that this package cannot read, which wraps
// raster.ErrUnsupported.
func (c *container) unsupported(what, option string) error {
	return fmt.Errorf("%s: %s can't be read by leat's own GeoTIFF driver; convert it with: gdal_translate %s%s out.tif (%w)", c.name, what, option, shellWord(driver.GDALName(c.name)), raster.ErrUnsupported)
}

// shellWord quotes a path for use in a shell command.
func shellWord(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_./-+,:@%=", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// newContainer reads the header and returns the offset of the first directory.
func newContainer(r io.ReaderAt, size int64, name string) (*container, int64, error) {
	c := &container{name: name, r: r, size: size}
	var h [16]byte
	n, err := r.ReadAt(h[:min(size, 16)], 0)
	if err != nil && err != io.EOF {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	if size == 0 {
		return nil, 0, fmt.Errorf("%s: the file is empty (%w)", name, raster.ErrFormat)
	}
	magic := uint16(0)
	switch {
	case n < 8:
	case h[0] == 'I' && h[1] == 'I':
		c.order, magic = binary.LittleEndian, binary.LittleEndian.Uint16(h[2:])
	case h[0] == 'M' && h[1] == 'M':
		c.order, magic = binary.BigEndian, binary.BigEndian.Uint16(h[2:])
	}
	switch {
	case magic == 42:
		return c, int64(c.order.Uint32(h[4:])), nil
	case magic == 43 && n == 16 && c.order.Uint16(h[4:]) == 8 && c.order.Uint16(h[6:]) == 0:
		c.big = true
		at := c.order.Uint64(h[8:])
		if at > math.MaxInt64 {
			return nil, 0, c.damaged("the offset of the first directory is too large")
		}
		return c, int64(at), nil
	}
	return nil, 0, fmt.Errorf("%s: not a TIFF: starts with %q; leat reads GeoTIFF and .npy (%w)", name, h[:min(n, 8)],
		raster.ErrFormat)
}

// readDirectory reads the directory at byte at, without the values of its entries.
func (c *container) readDirectory(at int64) (*directory, error) {
	countSize, entrySize, inline := 2, 12, uint64(4)
	if c.big {
		countSize, entrySize, inline = 8, 20, 8
	}
	if at < 8 || at > c.size-int64(countSize) {
		return nil, c.damaged("directory at byte %d is outside the file of %d bytes", at, c.size)
	}
	var b [8]byte
	if err := c.readAt(b[:countSize], at); err != nil {
		return nil, err
	}
	var entries uint64
	if c.big {
		entries = c.order.Uint64(b[:])
	} else {
		entries = uint64(c.order.Uint16(b[:]))
	}
	body := at + int64(countSize)
	if entries > maxEntries || int64(entries)*int64(entrySize) > c.size-body {
		return nil, c.damaged("directory at byte %d claims %d entries", at, entries)
	}
	raw := make([]byte, int(entries)*entrySize)
	if err := c.readAt(raw, body); err != nil {
		return nil, err
	}
	d := &directory{container: c, at: at, fields: make(map[uint16]field, min(entries, 64))}
	for i := 0; i < int(entries); i++ {
		e := raw[i*entrySize:]
		tag := c.order.Uint16(e)
		if _, twice := d.fields[tag]; twice {
			continue // like libtiff, keep the first
		}
		f := field{typ: c.order.Uint16(e[2:])}
		valueAt := body + int64(i*entrySize) + 8
		if c.big {
			f.count = c.order.Uint64(e[4:])
			valueAt += 4
		} else {
			f.count = uint64(c.order.Uint32(e[4:]))
		}
		size := uint64(f.size())
		switch {
		case size == 0:
			continue // the specification says to skip unknown types
		case f.count > math.MaxInt64/size:
			return nil, c.damaged("tag %d claims %d values", tag, f.count)
		case f.count*size <= inline:
			f.at = valueAt
		case c.big:
			v := c.order.Uint64(e[12:])
			if v > math.MaxInt64 {
				return nil, c.damaged("the offset of the values of tag %d is too large", tag)
			}
			f.at = int64(v)
		default:
			f.at = int64(c.order.Uint32(e[8:]))
		}
		d.fields[tag] = f
	}
	end := body + int64(len(raw))
	next := make([]byte, inline)
	d.end = end + int64(len(next))
	if end+int64(len(next)) <= c.size { // the last directory may lack the offset of the next one
		if err := c.readAt(next, end); err != nil {
			return nil, err
		}
		if c.big {
			v := c.order.Uint64(next)
			if v > math.MaxInt64 {
				return nil, c.damaged("the offset of the directory after byte %d is too large", end)
			}
			d.next = int64(v)
		} else {
			d.next = int64(c.order.Uint32(next))
		}
	}
	return d, nil
}

// readChain reads the directories from the one at byte at to the last. A cycle is an error.
func (c *container) readChain(at int64) ([]*directory, error) {
	var dirs []*directory
	seen := map[int64]bool{}
	for at != 0 && len(dirs) < maxDirectories {
		if seen[at] {
			return nil, c.damaged("the chain of directories returns to byte %d", at)
		}
		seen[at] = true
		d, err := c.readDirectory(at)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
		at = d.next
	}
	if len(dirs) == 0 {
		return nil, c.damaged("the file has no directory")
	}
	return dirs, nil
}

// readAt fills b from byte at of the file.
func (c *container) readAt(b []byte, at int64) error {
	if at < 0 || at > c.size || int64(len(b)) > c.size-at {
		return c.damaged("bytes %d to %d are outside the file of %d bytes", at, at+int64(len(b)), c.size)
	}
	if n, err := c.r.ReadAt(b, at); n < len(b) {
		if err == io.EOF || err == nil {
			return c.damaged("the file ends at byte %d", at+int64(n))
		}
		if strings.Contains(err.Error(), c.name) { // the error of a store is complete
			return &readError{err}
		}
		return &readError{fmt.Errorf("%s: reading at byte %d: %w", c.name, at, err)}
	}
	return nil
}

// readError is an error of the disk or the store, not of the file's contents.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

func (f field) size() int {
	if int(f.typ) >= len(tiff.TypeSizes) {
		return 0
	}
	return tiff.TypeSizes[f.typ]
}

// values reads the bytes of a tag's values. It returns nil if the tag is absent or has no value.
func (d *directory) values(tag uint16, limit uint64) ([]byte, field, error) {
	f, ok := d.fields[tag]
	if !ok || f.count == 0 {
		return nil, f, nil
	}
	if f.count > limit {
		return nil, f, d.damaged("tag %d has %d values", tag, f.count)
	}
	n := int64(f.count) * int64(f.size())
	if f.at < 0 || n > d.size || f.at > d.size-n {
		return nil, f, d.damaged("the values of tag %d are beyond the end of the file", tag)
	}
	b := make([]byte, n)
	return b, f, d.readAt(b, f.at)
}

// uints returns the integers of a tag, nil if it is absent.
func (d *directory) uints(tag uint16) ([]uint64, error) {
	b, f, err := d.values(tag, maxValues)
	if err != nil || b == nil {
		return nil, err
	}
	out := make([]uint64, f.count)
	for i := range out {
		v, ok := d.uintAt(b, f.typ, i)
		if !ok {
			return nil, d.damaged("tag %d is not an integer", tag)
		}
		out[i] = v
	}
	return out, nil
}

// uintAt decodes the i-th value of b. It returns false if the value is negative or not an integer.
func (c *container) uintAt(b []byte, typ uint16, i int) (uint64, bool) {
	switch typ {
	case tiff.TypeByte, tiff.TypeUndefined:
		return uint64(b[i]), true
	case tiff.TypeShort:
		return uint64(c.order.Uint16(b[2*i:])), true
	case tiff.TypeLong, tiff.TypeIFD:
		return uint64(c.order.Uint32(b[4*i:])), true
	case tiff.TypeLong8, tiff.TypeIFD8:
		return c.order.Uint64(b[8*i:]), true
	case tiff.TypeSByte:
		return uint64(b[i]), int8(b[i]) >= 0
	case tiff.TypeSShort:
		v := c.order.Uint16(b[2*i:])
		return uint64(v), int16(v) >= 0
	case tiff.TypeSLong:
		v := c.order.Uint32(b[4*i:])
		return uint64(v), int32(v) >= 0
	case tiff.TypeSLong8:
		v := c.order.Uint64(b[8*i:])
		return v, int64(v) >= 0
	}
	return 0, false
}

// uint returns the first value of a tag, or def if it is absent.
func (d *directory) uint(tag uint16, def uint64) (uint64, error) {
	v, err := d.uints(tag)
	if err != nil || len(v) == 0 {
		return def, err
	}
	return v[0], nil
}

// floats returns the numbers of a tag of any numeric type, nil if it is absent.
func (d *directory) floats(tag uint16) ([]float64, error) {
	b, f, err := d.values(tag, maxValues)
	if err != nil || b == nil {
		return nil, err
	}
	out := make([]float64, f.count)
	for i := range out {
		switch f.typ {
		case tiff.TypeDouble:
			out[i] = math.Float64frombits(d.order.Uint64(b[8*i:]))
		case tiff.TypeFloat:
			out[i] = float64(math.Float32frombits(d.order.Uint32(b[4*i:])))
		case tiff.TypeRational:
			out[i] = float64(d.order.Uint32(b[8*i:])) / float64(d.order.Uint32(b[8*i+4:]))
		default:
			v, ok := d.uintAt(b, f.typ, i)
			if !ok {
				return nil, d.damaged("tag %d is not a number", tag)
			}
			out[i] = float64(v)
		}
	}
	return out, nil
}

// text returns the characters of a tag up to the first NUL, "" if it is absent.
func (d *directory) text(tag uint16) (string, error) {
	b, _, err := d.values(tag, maxTextBytes)
	if err != nil {
		return "", err
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	return s, nil
}

func isBig(o binary.ByteOrder) bool { return o == binary.ByteOrder(binary.BigEndian) }
