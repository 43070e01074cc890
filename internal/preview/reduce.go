package preview

import (
	"math/cmplx"

	"leat/internal/scalarvalue"
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
	if add := adders[a.Type]; add != nil {
		add(r, a, nodata)
		return
	}
	switch a.Type {
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
		addValues(r, wide, nodata)
	case ndarray.Complex64:
		wide := make([]float64, a.Len())
		for i, v := range ndarray.Slice[complex64](a) {
			wide[i] = cmplx.Abs(complex128(v))
		}
		addValues(r, wide, nil)
	case ndarray.Complex128:
		wide := make([]float64, a.Len())
		for i, v := range ndarray.Slice[complex128](a) {
			wide[i] = cmplx.Abs(v)
		}
		addValues(r, wide, nil)
	}
}

// adders holds the function of addAny for each real type of Go.
var adders = map[ndarray.DType]func(r *reducedRow, a *ndarray.Array, nodata *ndarray.Scalar){
	ndarray.Uint8: addRow[uint8], ndarray.Int8: addRow[int8], ndarray.Uint16: addRow[uint16],
	ndarray.Int16: addRow[int16], ndarray.Uint32: addRow[uint32], ndarray.Int32: addRow[int32],
	ndarray.Uint64: addRow[uint64], ndarray.Int64: addRow[int64], ndarray.Float32: addRow[float32],
	ndarray.Float64: addRow[float64],
}

func addRow[T ndarray.Real](r *reducedRow, a *ndarray.Array, nodata *ndarray.Scalar) {
	addValues(r, ndarray.Slice[T](a), nodata)
}

func addValues[T ndarray.Real](r *reducedRow, row []T, nodata *ndarray.Scalar) {
	var no T
	// A nodata of NaN equals nothing, and NaN does not count anyway.
	has := nodata != nil
	if has {
		no = scalarvalue.As[T](*nodata)
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
