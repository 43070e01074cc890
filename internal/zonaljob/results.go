package zonaljob

import (
	"encoding/binary"
	"math"

	"leat/internal/zonal"
)

// results holds the statistics of many zones compactly.
type results struct {
	chunks [][]byte
	places []int64 // by row: chunk << 32 | offset, plus 1; 0: none
}

// chunkBytes is the size of a chunk. A row that is larger has one of its own.
const chunkBytes = 1 << 20

// set stores a row, once.
func (r *results) set(i int, values []zonal.Value) {
	n := len(r.chunks)
	if n == 0 || len(r.chunks[n-1]) >= chunkBytes {
		r.chunks = append(r.chunks, make([]byte, 0, chunkBytes+chunkBytes/16))
		n++
	}
	b := r.chunks[n-1]
	r.places[i] = int64(n-1)<<32 | int64(len(b)) + 1
	b = binary.AppendUvarint(b, uint64(len(values)))
	for _, v := range values {
		b = appendValue(b, v)
	}
	r.chunks[n-1] = b
}

func (r *results) has(i int) bool { return r.places[i] != 0 }

// get appends the values of a row to dst.
func (r *results) get(dst []zonal.Value, i int) ([]zonal.Value, error) {
	at := r.places[i] - 1
	d := decoder{rest: r.chunks[at>>32][at&math.MaxUint32:]}
	for range d.uvarint() {
		dst = append(dst, d.value())
	}
	if d.torn {
		return dst, errValue
	}
	return dst, nil
}

// appendValue appends a value: its type and whether it is null, and the number or the bins.
func appendValue(b []byte, v zonal.Value) []byte {
	head := byte(v.Type) << 1
	if v.Null {
		return append(b, head|1)
	}
	b = append(b, head)
	switch v.Type {
	case zonal.Int64:
		return binary.AppendVarint(b, v.Int)
	case zonal.Uint64:
		return binary.AppendUvarint(b, v.Uint)
	case zonal.Histogram:
		b = binary.AppendUvarint(b, uint64(len(v.Bins)))
		for _, bin := range v.Bins {
			b = appendValue(appendValue(b, bin.Low), bin.High)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(bin.Count))
		}
		return b
	}
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float))
}

// decoder reads what appendValue wrote.
type decoder struct {
	rest []byte
	torn bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.torn, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) float() float64 {
	if len(d.rest) < 8 {
		d.torn, d.rest = true, nil
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(d.rest))
	d.rest = d.rest[8:]
	return v
}

func (d *decoder) value() zonal.Value {
	head := d.uvarint()
	v := zonal.Value{Type: zonal.ColumnType(head >> 1), Null: head&1 == 1}
	if v.Null || d.torn {
		return v
	}
	switch v.Type {
	case zonal.Int64:
		n := d.uvarint()
		v.Int = int64(n>>1) ^ -int64(n&1)
	case zonal.Uint64:
		v.Uint = d.uvarint()
	case zonal.Histogram:
		for range d.uvarint() {
			if d.torn {
				break
			}
			v.Bins = append(v.Bins, zonal.Bin{Low: d.value(), High: d.value(), Count: d.float()})
		}
	default:
		v.Float = d.float()
	}
	return v
}
