package apply

import (
	"fmt"
	"slices"

	"leat/codec"
)

// Gob returns a codec for the values of a job that are of one type T: those that its function
// emits, or its Params.
func Gob[T any]() codec.Codec[any] { return codec.Any(codec.Gob[T]()) }

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
