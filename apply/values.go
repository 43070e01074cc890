package apply

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"
)

// Codec turns values into bytes and back. Those that blocks emit pass through it on their way from workers outside the process and into the
// unfinished output, from which a run can be resumed; so do a function's Params on their way to workers. What Decode is given is the value's: it
// may keep it. A Codec may be used by several goroutines at once.
type Codec interface {
	Encode(value any) ([]byte, error)
	Decode(data []byte) (any, error)
}

// Gob is a Codec for values of one type, by package encoding/gob: of exported fields, NaN and maps included.
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
	// What comes from another process may be anything.
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

// encodeValues encodes what a block emitted; nil where values do not leave the process.
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

// decodeValues reads what encodeValues made.
func (j *Job) decodeValues(list [][]byte) ([]any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if j.Emits == nil {
		return nil, fmt.Errorf("the block emitted values, and the job does not say of what type they are (Job.Emits)")
	}
	var values []any
	for _, b := range list {
		v, err := j.Emits.Decode(slices.Clone(b)) // it may wait for earlier blocks, when the buffer serves others
		if err != nil {
			return nil, fmt.Errorf("a value that the block emitted can't be decoded (Job.Emits): %w", err)
		}
		values = append(values, v)
	}
	return values, nil
}
