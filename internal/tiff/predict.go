package tiff

import (
	"encoding/binary"

	"leat/ndarray"
)

// NativeBig reports whether the machine is big-endian.
var NativeBig = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// Unpredict undoes a predictor in place; 0 and 1 are none. The words of the tile have size bytes,
// in the machine's byte order for predictor 2, and step words make a pixel.
func (d *Decoder) Unpredict(predictor int, tile []byte, rowBytes, size, step int) {
	switch predictor {
	case 2:
		undoDifference(tile, rowBytes, size, step)
	case 3:
		undoFloat(tile, rowBytes, size, step, d.Scratch(rowBytes))
	}
}

// UnpredictRow undoes predictor 2 or 3 of a row with one sample per pixel, of size bytes, and
// places its first pixels in dst, which is aligned to them. The row becomes undefined.
func (d *Decoder) UnpredictRow(predictor int, dst, row []byte, size int) {
	if predictor == 3 {
		undoRow(row, row, 1)
		joinPlanes(dst, row, size, len(row)/size)
		return
	}
	row = row[:len(dst)]
	switch size {
	case 1:
		undoRow(dst, row, 1)
	case 2:
		undoRow(ndarray.Cast[uint16](dst), ndarray.Cast[uint16](row), 1)
	case 4:
		undoRow(ndarray.Cast[uint32](dst), ndarray.Cast[uint32](row), 1)
	case 8:
		undoRow(ndarray.Cast[uint64](dst), ndarray.Cast[uint64](row), 1)
	}
}

// SwapWords reverses the bytes of each word of size bytes, in place.
func SwapWords(p []byte, size int) {
	switch size {
	case 2:
		for ; len(p) >= 2; p = p[2:] {
			p[0], p[1] = p[1], p[0]
		}
	case 4:
		for ; len(p) >= 4; p = p[4:] {
			binary.BigEndian.PutUint32(p, binary.LittleEndian.Uint32(p))
		}
	case 8:
		for ; len(p) >= 8; p = p[8:] {
			binary.BigEndian.PutUint64(p, binary.LittleEndian.Uint64(p))
		}
	}
}

// undoDifference undoes predictor 2 in place: each word, of size bytes in the machine's order, is
// the difference from the word step places before it in the row.
func undoDifference(tile []byte, rowBytes, size, step int) {
	for ; len(tile) >= rowBytes; tile = tile[rowBytes:] {
		row := tile[:rowBytes]
		switch size {
		case 1:
			undoRow(row, row, step)
		case 2:
			undoRow(ndarray.Cast[uint16](row), ndarray.Cast[uint16](row), step)
		case 4:
			undoRow(ndarray.Cast[uint32](row), ndarray.Cast[uint32](row), step)
		case 8:
			undoRow(ndarray.Cast[uint64](row), ndarray.Cast[uint64](row), step)
		}
	}
}

// undoRow sets d to the sums of each sample of row, of step samples per pixel. If step is 1, d may
// be other memory.
func undoRow[T uint8 | uint16 | uint32 | uint64](d, row []T, step int) {
	switch {
	case step == 1:
		var sum T
		d = d[:len(row)]
		n := sumFast(d, row)
		if n > 0 {
			sum = d[n-1]
		}
		for i, v := range row[n:] {
			sum += v
			d[n+i] = sum
		}
	case step == 3:
		var a, b, c T
		for ; len(row) >= 3; row = row[3:] {
			a, b, c = a+row[0], b+row[1], c+row[2]
			row[0], row[1], row[2] = a, b, c
		}
	case step == 4:
		var a, b, c, d T
		for ; len(row) >= 4; row = row[4:] {
			a, b, c, d = a+row[0], b+row[1], c+row[2], d+row[3]
			row[0], row[1], row[2], row[3] = a, b, c, d
		}
	case step < len(row):
		before := row[:len(row)-step]
		row = row[step:]
		for i, v := range before {
			row[i] += v
		}
	}
}

// undoFloat undoes predictor 3 in place. The bytes of a row's floats are stored plane by plane,
// most significant first whatever the file's byte order, each as the difference from the byte step
// places before it. spare holds one row.
func undoFloat(tile []byte, rowBytes, size, step int, spare []byte) {
	spare = spare[:rowBytes]
	for ; len(tile) >= rowBytes; tile = tile[rowBytes:] {
		row := tile[:rowBytes]
		undoRow(row, row, step)
		copy(spare, row)
		joinPlanes(row, spare, size, rowBytes/size)
	}
}

// joinPlanes makes floats of size bytes from the first bytes of planes, which have n bytes each.
func joinPlanes(d, planes []byte, size, n int) {
	switch size {
	case 2:
		out := ndarray.Cast[uint16](d)
		b0, b1 := planes[:n], planes[n:2*n]
		for i := range out {
			out[i] = uint16(b0[i])<<8 | uint16(b1[i])
		}
	case 4:
		out := ndarray.Cast[uint32](d)
		m := len(out)
		b0, b1, b2, b3 := planes[:n][:m], planes[n : 2*n][:m], planes[2*n : 3*n][:m], planes[3*n : 4*n][:m]
		for i := joinPlanesFast(out, b0, b1, b2, b3); i < m; i++ {
			out[i] = uint32(b0[i])<<24 | uint32(b1[i])<<16 | uint32(b2[i])<<8 | uint32(b3[i])
		}
	case 8:
		out := ndarray.Cast[uint64](d)
		for i := range out {
			var v uint64
			for k := 0; k < 8; k++ {
				v = v<<8 | uint64(planes[k*n+i])
			}
			out[i] = v
		}
	}
}
