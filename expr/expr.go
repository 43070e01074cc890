// Package expr computes band math such as "(nir - red) / (nir + red)" over arrays in memory. For
// files, and for rasters larger than memory, see leat/apply.
//
// docs/guide/expressions.md defines the language: types, validity and nodata. Integers never wrap,
// NaN is never valid, and nothing is cast unless asked for. Sums, products and comparisons are the
// same on all processors; transcendental functions may differ in the last bit of a float64.
package expr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"leat/block"
	"leat/internal/expr"
	"leat/ndarray"
)

// SyntaxError is returned for text that is not an expression. Msg says what is wrong, and Pos
// where, as a byte offset in Text, the expression. If a function does not exist, Unknown is its
// name and Known those of the functions that do.
type SyntaxError = expr.SyntaxError

// TypeError is returned for an expression that can't be computed from its inputs: a name is
// unknown, a band does not exist, or an integer could exceed the exact range. Msg says what is
// wrong, and Pos where, as a byte offset in Text, the expression. If no input has a name, Unknown
// is that name and Known those of the inputs. In and NoTime are for expressions of package apply:
// the name of the expression with this Text if another one uses it, and whether the times of files
// are needed and not known.
type TypeError = expr.TypeError

// Input holds the pixels of a name: one band, or several that name[1], name[2], ... select.
type Input struct {
	// Pixels has rows and columns, or bands, rows and columns, with any strides. It is not complex
	// and not Float16.
	Pixels *ndarray.Array
	Nodata *ndarray.Scalar // of the type of Pixels; nil if there is none
	// Mask has one byte for each row and column, row by row: 0 where all bands are invalid. nil: no
	// pixel is masked.
	Mask []byte
}

// Options describes the result. nil is the zero value.
type Options struct {
	Type   ndarray.DType // NoType selects it by the expression
	Nodata string        // a number or "nan"; "none" for none; "" for the guide's default
	NoMask bool          // ignore nodata and masks of the inputs: all pixels but NaN are valid
	Margin block.Margin  // what focal functions see outside the arrays
}

// Result is what Eval computed.
type Result struct {
	Pixels  *ndarray.Array  // bands, rows and columns
	Nodata  *ndarray.Scalar // value of invalid pixels; nil if there is none
	Invalid int64           // number of invalid pixels of all bands
	// Saturated counts pixels beyond the range of the type, which became its nearest value, and
	// NodataCollision valid pixels whose value is that of Nodata.
	Saturated, NodataCollision int64
}

// Eval computes an expression over arrays that all have the same rows and columns. At least one is
// needed, for the size. It returns a [*SyntaxError] or a [*TypeError] for a wrong expression, and
// another error for wrong inputs and options. It also returns an error for a pixel that can't be
// computed (a 64-bit integer beyond 2^53) or written (an invalid one without a nodata value). Such
// an error has the number of the pixel, row by row from 0.
//
// Arrays have no place on the ground: functions of coordinates are refused, and so are terrain
// functions that need the pixel size. Eval copies arrays that are not contiguous or not aligned for
// their type, keeps none, uses one goroutine, and is safe for concurrent use.
func Eval(text string, inputs map[string]Input, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	e, err := expr.Parse(text)
	if err != nil {
		return nil, err
	}
	rows, columns, described, err := describe(inputs)
	if err != nil {
		return nil, err
	}
	if o.Margin > block.MarginNearest {
		return nil, fmt.Errorf("expr: unknown margin %d", uint8(o.Margin))
	}
	p, err := expr.Compile(e, described, &expr.Options{Type: o.Type, Nodata: o.Nodata, NoMask: o.NoMask,
		Width: columns, Height: rows, Margin: o.Margin, Ground: expr.NoGround})
	switch {
	case err != nil:
		return nil, err
	case p.Placed():
		return nil, errors.New("expr: arrays have no coordinates")
	}
	var src []expr.Operand
	for _, ref := range p.Refs() {
		src = append(src, operand(inputs[ref.Name], ref.Band))
	}
	pixels := ndarray.New(p.Type(), p.Bands(), rows, columns)
	dst := make([][]byte, p.Bands())
	for i := range dst {
		dst[i] = pixels.At(i).Raw()
	}
	var c expr.Counts
	if p.Focal() {
		err = p.NewEvaluator().EvalWindow(expr.Frame{Place: expr.Place{Columns: columns}, Rows: rows}, src, dst, &c)
	} else {
		err = p.NewEvaluator().Eval(src, dst, rows*columns, &c)
	}
	if err != nil {
		return nil, err
	}
	return &Result{Pixels: pixels, Nodata: p.Nodata(), Invalid: c.Invalid, Saturated: c.Saturated,
		NodataCollision: c.NodataCollision}, nil
}

// describe returns the size of the inputs and what the compiler needs to know of them.
func describe(inputs map[string]Input) (rows, columns int, described map[string]expr.Input, err error) {
	described = map[string]expr.Input{}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in := inputs[name]
		if err := expr.CheckName(name); err != nil {
			return 0, 0, nil, err
		}
		if err := checkArray(in.Pixels); err != nil {
			return 0, 0, nil, fmt.Errorf("expr: input %s: %w", name, err)
		}
		shape := in.Pixels.Shape
		bands := make([]expr.Band, 1)
		if len(shape) == 3 {
			bands, shape = make([]expr.Band, shape[0]), shape[1:]
		}
		switch {
		case len(described) == 0:
			rows, columns = shape[0], shape[1]
		case rows != shape[0] || columns != shape[1]:
			return 0, 0, nil, fmt.Errorf("expr: input %s has %d rows and %d columns, another one %d and %d", name,
				shape[0], shape[1], rows, columns)
		}
		if in.Mask != nil && len(in.Mask) != rows*columns {
			return 0, 0, nil, fmt.Errorf("expr: input %s: mask of %d pixels, expected %d", name, len(in.Mask),
				rows*columns)
		}
		if in.Nodata != nil && in.Nodata.Type != in.Pixels.Type {
			return 0, 0, nil, fmt.Errorf("expr: input %s: nodata is %v, expected %v", name, in.Nodata.Type,
				in.Pixels.Type)
		}
		for i := range bands {
			bands[i] = expr.Band{Type: in.Pixels.Type, Nodata: in.Nodata, Masked: in.Mask != nil}
		}
		described[name] = expr.Input{Files: []expr.File{{Bands: bands}}}
	}
	if len(described) == 0 {
		return 0, 0, nil, errors.New("expr: no input is given")
	}
	return rows, columns, described, nil
}

// checkArray returns an error if an array has no pixels or some of them lie outside its data.
func checkArray(a *ndarray.Array) error {
	if a == nil || len(a.Shape) < 2 || len(a.Shape) > 3 {
		return errors.New("expected rows and columns, or bands, rows and columns")
	}
	if slices.Contains(a.Shape, 0) {
		return errors.New("the array has no pixels")
	}
	if _, ok := ndarray.ByteSize(a.Type, a.Shape...); !ok || len(a.Strides) != len(a.Shape) {
		return fmt.Errorf("type %v, shape %v and strides %v do not describe an array", a.Type, a.Shape, a.Strides)
	}
	first, end := min(a.Offset, len(a.Data)), min(a.Offset, len(a.Data))
	for i, n := range a.Shape {
		if n == 1 {
			continue
		}
		if limit := len(a.Data) / (n - 1); a.Strides[i] > limit || a.Strides[i] < -limit {
			return fmt.Errorf("pixels outside the %d bytes of data", len(a.Data))
		}
		step := (n - 1) * a.Strides[i]
		first, end = first+min(step, 0), end+max(step, 0)
	}
	if first < 0 || end > len(a.Data)-a.Type.Size() {
		return fmt.Errorf("pixels outside the %d bytes of data", len(a.Data))
	}
	return nil
}

// operand returns the pixels of a band, counted from 1, in C order.
func operand(in Input, band int) expr.Operand {
	a := in.Pixels
	if len(a.Shape) == 3 {
		a = a.At(band - 1)
	}
	size := a.Type.Size()
	if a.Contiguous() {
		if data := a.Raw(); uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(size) == 0 {
			return expr.Operand{Data: data, Mask: in.Mask}
		}
	}
	copied := ndarray.New(a.Type, a.Shape...).Data
	to := 0
	for r := range a.Shape[0] {
		for c := range a.Shape[1] {
			copy(copied[to:to+size], a.Data[a.Offset+r*a.Strides[0]+c*a.Strides[1]:])
			to += size
		}
	}
	return expr.Operand{Data: copied, Mask: in.Mask}
}
