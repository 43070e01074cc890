// Package codec encodes values as bytes, for the packages that store or send values of any type:
// apply sends what blocks emit, and cache and stage store values.
//
// [Codec] is the interface; [Gob], [JSON] and [Binary] return the usual ones, and [Any] makes one
// for tables of codecs of different types.
package codec

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"encoding/json"
	"fmt"
)

// Codec encodes values of one type and decodes them. Several goroutines may call both methods at
// once. Decode must neither change nor keep b: it may be memory that others read.
type Codec[T any] interface {
	Encode(v T) ([]byte, error)
	Decode(b []byte) (T, error)
}

// Gob returns the codec of package encoding/gob: it keeps exported fields only, and supports NaN
// and maps. Every encoded value contains a description of its type.
func Gob[T any]() Codec[T] { return gobCodec[T]{} }

type gobCodec[T any] struct{}

func (gobCodec[T]) Encode(v T) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(&v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (gobCodec[T]) Decode(b []byte) (v T, err error) {
	defer func() { // package gob panics on some invalid data
		if p := recover(); p != nil {
			err = fmt.Errorf("invalid gob data: %v", p)
		}
	}()
	err = gob.NewDecoder(bytes.NewReader(b)).Decode(&v)
	return v, err
}

// JSON returns the codec of package encoding/json, for values that other languages read. It can't
// encode NaN.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Encode(v T) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec[T]) Decode(b []byte) (v T, err error) {
	err = json.Unmarshal(b, &v)
	return v, err
}

// Binary returns the codec of a type T whose pointer P is an encoding.BinaryMarshaler and
// BinaryUnmarshaler: Binary[time.Time]().
func Binary[T any, P interface {
	*T
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}]() Codec[T] {
	return binaryCodec[T, P]{}
}

type binaryCodec[T any, P interface {
	*T
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}] struct{}

func (binaryCodec[T, P]) Encode(v T) ([]byte, error) { return P(&v).MarshalBinary() }

func (binaryCodec[T, P]) Decode(b []byte) (v T, err error) {
	err = P(&v).UnmarshalBinary(b)
	return v, err
}

// Any returns a codec that encodes values of type T as c does, and returns an error for values of
// other types.
func Any[T any](c Codec[T]) Codec[any] { return anyCodec[T]{c} }

type anyCodec[T any] struct{ c Codec[T] }

func (a anyCodec[T]) Encode(value any) ([]byte, error) {
	v, ok := value.(T)
	if !ok {
		return nil, fmt.Errorf("a value of type %T, expected %T", value, *new(T))
	}
	return a.c.Encode(v)
}

func (a anyCodec[T]) Decode(b []byte) (any, error) {
	v, err := a.c.Decode(b)
	if err != nil {
		return nil, err
	}
	return v, nil
}
