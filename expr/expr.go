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

	"leat/block"
	"leat/internal/expr"
	"leat/ndarray"
)

// SyntaxError is the error of a text that is not an expression: what is wrong (Msg) and where, as a
// byte offset in the text (Pos).
type SyntaxError = expr.SyntaxError

// TypeError is the error of an expression that can't be computed from its inputs: a name is
// unknown, a band does not exist, or an integer could exceed the exact range. Msg says what is
// wrong, and Pos where, as a byte offset in the text.
type TypeError = expr.TypeError

// Input holds the pixels of a name: one band, or several that name[1], name[2], ... select.
type Input struct {
	// Pixels has rows and columns, or bands, rows and columns. It is not complex and not Float16.
	Pixels *ndarray.Array
	Nodata *ndarray.Scalar // of the type of Pixels; nil if there is none
	// Mask has one byte for each row and column, 0 where all bands are invalid; nil: none.
	Mask []byte
}

// Options describes the result. nil is the zero value.
type Options struct {
	Type   ndarray.DType // NoType selects it by the expression
	Nodata string        // a number or "nan"; "none" for none; "" for the default
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

// Eval computes an expression over arrays that all have the same rows and columns. Inputs that it
// does not use are ignored, and one at least is needed for the size. It returns a [*SyntaxError] or
// a [*TypeError] for a wrong expression, and an error for a pixel that can't be computed (a 64-bit
// integer beyond 2^53) or written (an invalid one without a nodata value). Arrays have no place on
// the ground: functions of coordinates and of terrain are refused. Eval keeps no input and is safe
// for concurrent use.
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
		src = append(src, operand(inputs[ref.Name], ref.Band, p.Margin(), rows, columns))
	}
	pixels := ndarray.New(p.Type(), p.Bands(), rows, columns)
	dst := make([][]byte, p.Bands())
	for i := range dst {
		dst[i] = pixels.At(i).Raw()
	}
	var c expr.Counts
	if p.Focal() {
		err = p.NewEvaluator().EvalWindow(expr.Frame{Place: expr.Place{Columns: columns}, Rows: rows,
			Margin: p.Margin()}, src, dst, &c)
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
	for name, in := range inputs {
		if in.Pixels == nil || len(in.Pixels.Shape) < 2 || len(in.Pixels.Shape) > 3 {
			return 0, 0, nil, fmt.Errorf("expr: input %s: expected rows and columns, or bands, rows and columns", name)
		}
		shape := in.Pixels.Shape
		bands := make([]expr.Band, 1)
		if len(shape) == 3 {
			bands, shape = make([]expr.Band, shape[0]), shape[1:]
		}
		switch {
		case shape[0] == 0 || shape[1] == 0:
			return 0, 0, nil, fmt.Errorf("expr: input %s has no pixels", name)
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

// operand returns the pixels of a band, counted from 1, in C order with a margin around them.
func operand(in Input, band, margin, rows, columns int) expr.Operand {
	a := in.Pixels
	if len(a.Shape) == 3 {
		a = a.At(band - 1)
	}
	if margin == 0 && a.Contiguous() {
		return expr.Operand{Data: a.Raw(), Mask: in.Mask}
	}
	size, width := a.Type.Size(), columns+2*margin
	o := expr.Operand{Data: ndarray.New(a.Type, rows+2*margin, width).Data, Mask: make([]byte, (rows+2*margin)*width)}
	for r := range rows {
		for c := range columns {
			from, to := a.Offset+r*a.Strides[0]+c*a.Strides[1], (r+margin)*width+c+margin
			copy(o.Data[to*size:][:size], a.Data[from:])
			o.Mask[to] = 1
			if in.Mask != nil {
				o.Mask[to] = in.Mask[r*columns+c]
			}
		}
	}
	return o
}
