// Package netcdf computes the size of classic netCDF files from their headers. GDAL and netCDF's
// library read zeros beyond the end of a file that was cut short.
package netcdf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// ErrFormat is returned for bytes that are not the header of a classic netCDF file: of the versions
// 1, 2 (64-bit offsets) and 5 (64-bit data). Files of netCDF 4 are HDF5 files.
var ErrFormat = errors.New("not a classic netCDF header")

// Size returns the least number of bytes of a file with the header that r begins with. Records
// count only if the header has their number. The format is that of the netCDF classic format
// specification.
func Size(r io.Reader) (int64, error) {
	h := &header{r: bufio.NewReader(r)}
	records := h.start()
	h.dimensions()
	h.attributes()
	h.variables()
	switch {
	case h.err == io.EOF || h.err == io.ErrUnexpectedEOF:
		return 0, fmt.Errorf("%w: it ends within the header", ErrFormat)
	case h.err != nil:
		return 0, h.err
	}
	return h.size(records)
}

// header is a header that is being read. After the first error nothing more is read, and all
// numbers are 0.
type header struct {
	r       *bufio.Reader
	version byte
	lengths []uint64 // of dimensions; 0 for that of records
	vars    []variable
	bytes   uint64 // read so far
	err     error
}

// variable is the part of the file with the values of a variable.
type variable struct {
	begin  uint64
	bytes  uint64 // of all values, or of one record's
	record bool
}

// Tags of lists. An empty list may have the tag absent.
const (
	absent       = 0
	dimensionTag = 10
	variableTag  = 11
	attributeTag = 12
)

// streaming is the number of records in a header that does not have it.
const streaming = math.MaxUint64

// sizes has the sizes of values in bytes by type.
var sizes = [...]uint64{1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}

// start reads the beginning and returns the number of records.
func (h *header) start() (records uint64) {
	var magic [4]byte
	h.read(magic[:])
	h.version = magic[3]
	if string(magic[:3]) != "CDF" || h.version != 1 && h.version != 2 && h.version != 5 {
		h.fail("it begins with %q", magic[:])
	}
	records = h.count()
	if h.version != 5 && records == math.MaxUint32 {
		records = streaming
	}
	return records
}

func (h *header) dimensions() {
	for range h.list(dimensionTag) {
		h.name()
		h.lengths = append(h.lengths, h.count())
		if h.err != nil {
			return
		}
	}
}

func (h *header) attributes() {
	for range h.list(attributeTag) {
		h.name()
		size := h.typeSize()
		h.skip(h.count(), size)
		if h.err != nil {
			return
		}
	}
}

func (h *header) variables() {
	for range h.list(variableTag) {
		h.name()
		v := variable{bytes: 1}
		rank := h.count()
		for i := uint64(0); i < rank && h.err == nil; i++ {
			id := h.count()
			if id >= uint64(len(h.lengths)) {
				h.fail("a variable has dimension %d of %d", id, len(h.lengths))
				return
			}
			if n := h.lengths[id]; n > 0 {
				v.bytes = h.times(v.bytes, n)
			} else if i == 0 {
				v.record = true
			} else {
				h.fail("the dimension of records is not a variable's first")
			}
		}
		h.attributes()
		v.bytes = h.times(v.bytes, h.typeSize())
		h.count() // the size again, which is too small for variables of more than 4 GiB
		if h.version == 1 {
			v.begin = uint64(h.word())
		} else {
			v.begin = h.double()
		}
		if h.err != nil {
			return
		}
		h.vars = append(h.vars, v)
	}
}

// size returns the end of the last variable, or of the header.
func (h *header) size(records uint64) (int64, error) {
	number, record := 0, uint64(0)
	for _, v := range h.vars {
		if v.record {
			number++
			record = h.plus(record, h.plus(v.bytes, 3)&^3)
		}
	}
	end := h.bytes
	for _, v := range h.vars {
		switch {
		case !v.record:
			end = max(end, h.plus(v.begin, v.bytes))
		case records != streaming && records > 0:
			if number == 1 {
				record = v.bytes // a single variable of records is not padded
			}
			end = max(end, h.plus(v.begin, h.plus(h.times(record, records-1), v.bytes)))
		}
	}
	return int64(end), h.err
}

// list reads the beginning of a list and returns its length.
func (h *header) list(expected uint32) uint64 {
	tag, n := h.word(), h.count()
	if tag != expected && (tag != absent || n != 0) {
		h.fail("a list has the tag %d, expected %d", tag, expected)
		return 0
	}
	return n
}

func (h *header) name() { h.skip(h.count(), 1) }

// typeSize reads a type and returns the size of its values in bytes.
func (h *header) typeSize() uint64 {
	t := h.word()
	if t == 0 || t >= uint32(len(sizes)) {
		h.fail("type %d is unknown", t)
		return 0
	}
	return sizes[t]
}

// skip skips n values of size bytes, and bytes up to a multiple of four.
func (h *header) skip(n, size uint64) {
	bytes := h.plus(h.times(n, size), 3) &^ 3
	h.bytes = h.plus(h.bytes, bytes)
	for bytes > 0 && h.err == nil {
		k := min(bytes, 1<<30)
		_, h.err = h.r.Discard(int(k))
		bytes -= k
	}
}

// count reads a number of 4 or, in version 5, 8 bytes.
func (h *header) count() uint64 {
	if h.version == 5 {
		return h.double()
	}
	return uint64(h.word())
}

func (h *header) word() uint32 {
	var b [4]byte
	h.read(b[:])
	return binary.BigEndian.Uint32(b[:])
}

func (h *header) double() uint64 {
	var b [8]byte
	h.read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// read fills b, with zeros after an error.
func (h *header) read(b []byte) {
	if h.err == nil {
		if _, h.err = io.ReadFull(h.r, b); h.err == nil {
			h.bytes += uint64(len(b))
			return
		}
	}
	clear(b)
}

func (h *header) times(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 || low > math.MaxInt64 {
		h.fail("a size is beyond 2^63 bytes")
		return 0
	}
	return low
}

func (h *header) plus(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 || sum > math.MaxInt64 {
		h.fail("a size is beyond 2^63 bytes")
		return 0
	}
	return sum
}

// fail records the first error.
func (h *header) fail(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf("%w: "+format, append([]any{ErrFormat}, args...)...)
	}
}
