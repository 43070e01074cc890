package zonal

import (
	"fmt"
	"math"

	"leat/ndarray"
)

// keyOf returns a number that orders values of type T as they compare. -0 and 0 have the same key.
func keyOf[T ndarray.Real](v T) uint64 {
	switch v := any(v).(type) {
	case float32:
		if v == 0 {
			v = 0
		}
		b := math.Float32bits(v)
		return uint64(b ^ (uint32(int32(b)>>31) | 1<<31))
	case float64:
		if v == 0 {
			v = 0
		}
		b := math.Float64bits(v)
		return b ^ (uint64(int64(b)>>63) | 1<<63)
	case uint64:
		return v
	}
	return uint64(int64(v)) ^ 1<<63
}

// kind is how keys encode a type's values.
type kind uint8

const (
	signedKind kind = iota // integers other than uint64
	uint64Kind
	float32Kind
	float64Kind
)

// kindOf returns the kind of a type, and an error for types without order.
func kindOf(t ndarray.DType) (kind, error) {
	switch {
	case t == ndarray.Uint64:
		return uint64Kind, nil
	case t.IsInteger():
		return signedKind, nil
	case t == ndarray.Float32:
		return float32Kind, nil
	case t == ndarray.Float64:
		return float64Kind, nil
	}
	return 0, fmt.Errorf("zonal statistics of %s values, expected integers, float32 or float64", t)
}

// maxKey returns an upper bound on the keys.
func (k kind) maxKey() uint64 {
	if k == float32Kind {
		return math.MaxUint32
	}
	return math.MaxUint64
}

// value returns the value with a key.
func (k kind) value(key uint64) Value {
	switch k {
	case signedKind:
		return Value{Type: Int64, Int: int64(key ^ 1<<63)}
	case uint64Kind:
		return Value{Type: Uint64, Uint: key}
	case float32Kind:
		b := uint32(key)
		return Value{Type: Float64, Float: float64(math.Float32frombits(b ^ (^uint32(int32(b)>>31) | 1<<31)))}
	}
	return Value{Type: Float64, Float: math.Float64frombits(key ^ (^uint64(int64(key)>>63) | 1<<63))}
}

// ColumnType is the type of a statistic's values.
type ColumnType uint8

const (
	Float64 ColumnType = iota
	Int64
	Uint64
	Histogram
)

// Value is a statistic of a zone, in the field for its type.
type Value struct {
	Type  ColumnType
	Null  bool // the zone has no valid pixels
	Int   int64
	Uint  uint64
	Float float64
	Bins  []Bin // of a histogram
}

// Bin is a value, or the values of a range, in a histogram.
type Bin struct {
	Low, High Value   // equal when the bin is of one value
	Count     float64 // sum of the pixels' weights
}

// AsFloat returns the number as the closest float64.
func (v Value) AsFloat() float64 {
	switch v.Type {
	case Int64:
		return float64(v.Int)
	case Uint64:
		return float64(v.Uint)
	}
	return v.Float
}
