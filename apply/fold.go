package apply

import "fmt"

// Emit is Block.Emit for a value whose type [Fold] knows.
func Emit[T any](b *Block, value T) { b.Emit(value) }

// Fold returns a Job.Merge or a Job.MergeWorkers for values of type T: it calls add with each
// value, in the order of block numbers and, within a block, of the calls of Emit, or in the order
// of worker numbers. One goroutine at a time calls add, which usually adds the value to a variable
// of the caller; after Run has returned nil, that holds the result. A value of another type ends
// the run with an error.
func Fold[T any](add func(value T) error) func(from int, value any) error {
	return func(_ int, value any) error {
		v, ok := value.(T)
		if !ok {
			return fmt.Errorf("a value of type %T, expected %T", value, *new(T))
		}
		return add(v)
	}
}
