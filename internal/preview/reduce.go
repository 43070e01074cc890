package preview

import (
	"math/cmplx"

	"leat/ndarray"
)

// reducedRow is a row of cells to which pixels are added.
type reducedRow struct {
	cell  []int32
	sum   []float64
	count []uint32
	mask  []byte // 0: the pixel does not count; nil: all do
	least float64
}

// addAny adds a row of pixels of any type. Complex ones count by their magnitude.
func (r *reducedRow) addAny(a *ndarray.Array, nodata *ndarray.Scalar) {
	switch a.Type {
	case ndarray.Uint8:
		addRow(r, ndarray.Slice[uint8](a), nodata)
	case ndarray.Int8:
		addRow(r, ndarray.Slice[int8](a), nodata)
	case ndarray.Uint16:
		addRow(r, ndarray.Slice[uint16](a), nodata)
	case ndarray.Int16:
		addRow(r, ndarray.Slice[int16](a), nodata)
	case ndarray.Uint32:
		addRow(r, ndarray.Slice[uint32](a), nodata)
	case ndarray.Int32:
		addRow(r, ndarray.Slice[int32](a), nodata)
	case ndarray.Uint64:
		addRow(r, ndarray.Slice[uint64](a), nodata)
	case ndarray.Int64:
		addRow(r, ndarray.Slice[int64](a), nodata)
	case ndarray.Float32:
		addRow(r, ndarray.Slice[float32](a), nodata)
	case ndarray.Float64:
		addRow(r, ndarray.Slice[float64](a), nodata)
	case ndarray.Float16:
		bits := ndarray.Slice[uint16](a)
		wide := make([]float32, len(bits))
		for i, h := range bits {
			wide[i] = ndarray.Float16ToFloat32(h)
		}
		if nodata != nil {
			s := ndarray.ScalarOf(float32(nodata.Float64()))
			nodata = &s
		}
		addRow(r, wide, nodata)
	case ndarray.Complex64:
		wide := make([]float64, a.Len())
		for i, v := range ndarray.Slice[complex64](a) {
			wide[i] = cmplx.Abs(complex128(v))
		}
		addRow(r, wide, nil)
	case ndarray.Complex128:
		wide := make([]float64, a.Len())
		for i, v := range ndarray.Slice[complex128](a) {
			wide[i] = cmplx.Abs(v)
		}
		addRow(r, wide, nil)
	}
}

func addRow[T ndarray.Real](r *reducedRow, row []T, nodata *ndarray.Scalar) {
	var no T
	// A nodata of NaN equals nothing, and NaN does not count anyway.
	has := nodata != nil
	if has {
		no = ndarray.Value[T](*nodata)
	}
	cell := r.cell[:len(row)]
	for i, v := range row {
		if cell[i] < 0 || has && v == no || r.mask != nil && r.mask[i] == 0 {
			continue
		}
		f := float64(v)
		if f-f != 0 { // NaN or infinite
			continue
		}
		r.least = min(r.least, f)
		r.sum[cell[i]] += f
		r.count[cell[i]]++
	}
}
