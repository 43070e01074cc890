package apply

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"
)

// Codec encodes values and decodes them. It encodes the values that blocks emit, on their way from
// worker processes and into the spool, and a function's Params on their way to workers. Decode may
// keep the data it gets. Several goroutines may use a Codec at once.
type Codec interface {
	Encode(value any) ([]byte, error)
	Decode(data []byte) (any, error)
}

// Gob returns a Codec for values of one type by package encoding/gob: it keeps exported fields
// only, and supports NaN and maps.
func Gob[T any]() Codec { return gobCodec[T]{} }

type gobCodec[T any] struct{}

func (gobCodec[T]) Encode(value any) ([]byte, error) {
	v, ok := value.(T)
	if !ok {
		return nil, fmt.Errorf("a value of type %T, not %T as declared", value, *new(T))
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(&v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (gobCodec[T]) Decode(data []byte) (_ any, err error) {
	var v T
	// Data from another process may be invalid in any way.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a value that can't be read: %v", p)
		}
	}()
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}

// encodeValues encodes the values that a block emitted; it returns nil if values do not leave the
// process.
func (j *Job) encodeValues(values []any) ([][]byte, error) {
	if j.Emits == nil {
		return nil, nil
	}
	var list [][]byte
	for _, v := range values {
		b, err := j.Emits.Encode(v)
		if err != nil {
			return nil, fmt.Errorf("the value that it emitted can't be encoded (Job.Emits): %w", err)
		}
		list = append(list, b)
	}
	return list, nil
}

// decodeValues decodes the result of encodeValues.
func (j *Job) decodeValues(list [][]byte) ([]any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if j.Emits == nil {
		return nil, fmt.Errorf("the block emitted values, and the job does not say of what type they are (Job.Emits)")
	}
	var values []any
	for _, b := range list {
		v, err := j.Emits.Decode(slices.Clone(b)) // values may wait for earlier blocks after the buffer is reused
		if err != nil {
			return nil, fmt.Errorf("a value that the block emitted can't be decoded (Job.Emits): %w", err)
		}
		values = append(values, v)
	}
	return values, nil
}
