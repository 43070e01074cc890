package apply

import (
	"crypto/sha256"
	"fmt"
	"math"
	"reflect"
)

// descriptionParams are the parameters of a run's function: the SHA-256 of what its codec makes of them and, where that is not too much, that itself. A codec may
// make other bytes of the same parameters each time, as gob does of maps, so that equal ones can't be told by their bytes alone.
type descriptionParams struct {
	Params  string `json:"params,omitempty"`
	Encoded []byte `json:"params_encoded,omitempty"`

	codec Codec
}

// mostParams is how many bytes of parameters each unfinished output keeps.
const mostParams = 1 << 20

func describeParams(codec Codec, params any) (descriptionParams, error) {
	text, err := codec.Encode(params)
	if err != nil {
		return descriptionParams{}, err
	}
	d := descriptionParams{Params: fmt.Sprintf("%x", sha256.Sum256(text)), codec: codec}
	if len(text) <= mostParams {
		d.Encoded = text
	}
	return d, nil
}

// sameParams reports whether the parameters of an earlier run are those of this one.
func (d *descriptionParams) sameParams(was *descriptionParams) bool {
	if was.Params == d.Params {
		return true
	}
	if d.codec == nil || len(was.Encoded) == 0 || len(d.Encoded) == 0 {
		return false
	}
	a, err := d.codec.Decode(was.Encoded)
	if err != nil {
		return false
	}
	b, err := d.codec.Decode(d.Encoded)
	return err == nil && alike(reflect.ValueOf(a), reflect.ValueOf(b), 0)
}

// deepest is how deep values are compared: what was read from bytes may refer to itself nevertheless.
const deepest = 10000

// alike is reflect.DeepEqual, but that NaN equals NaN, 0 does not equal -0, and what refers to itself equals nothing.
func alike(a, b reflect.Value, depth int) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() || depth > deepest {
		return false
	}
	all := func(n int, at func(v reflect.Value, i int) reflect.Value) bool {
		for i := range n {
			if !alike(at(a, i), at(b, i), depth+1) {
				return false
			}
		}
		return true
	}
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		return sameNumber(a.Float(), b.Float())
	case reflect.Complex64, reflect.Complex128:
		x, y := a.Complex(), b.Complex()
		return sameNumber(real(x), real(y)) && sameNumber(imag(x), imag(y))
	case reflect.Array:
		return all(a.Len(), reflect.Value.Index)
	case reflect.Slice:
		return a.IsNil() == b.IsNil() && a.Len() == b.Len() && all(a.Len(), reflect.Value.Index)
	case reflect.Struct:
		return all(a.NumField(), reflect.Value.Field)
	case reflect.Pointer, reflect.Interface:
		return alike(a.Elem(), b.Elem(), depth+1)
	case reflect.Map:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for _, key := range a.MapKeys() {
			if v := b.MapIndex(key); !v.IsValid() || !alike(a.MapIndex(key), v, depth+1) {
				return false
			}
		}
		return true
	case reflect.Func:
		return a.IsNil() && b.IsNil()
	}
	return a.Equal(b)
}

func sameNumber(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}
