package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"leat/codec"
	"leat/raster"
)

// Function is the code of a job that workers run.
type Function struct {
	Compute func(ctx context.Context, b *Block) error // nil for expressions
	// Begin, if not nil, may begin a block before Compute is called with it, even while the block
	// before is computed, and reports whether the next one should begin now, too. Compute is then
	// called with the blocks that began, in their order, unless one before fails. It may be called
	// again with a block.
	Begin func(b *Block) bool
	// Setup makes the state of a worker, and Close ends it and returns its value; both may be nil.
	Setup func(ctx context.Context, w WorkerInfo) (any, error)
	Close func(state any) (value any, err error)
	// Emits encodes emitted values, WorkerValues those of Close; both may be nil.
	Emits, WorkerValues codec.Codec[any]
	// Shared asks for blocks in memory that other processes can map (Block.Memory).
	Shared bool
	// Loading is closed when the function is loaded, which takes a core; nil: it is.
	Loading <-chan struct{}
	// Errors are sentinels that errors.Is finds in the errors of other processes too, at most
	// MaxErrors.
	Errors []error
}

// WorkerInfo identifies a worker to Setup: see apply.WorkerInfo.
type WorkerInfo struct{ Worker, Workers, Slot int }

// MaxErrors is the maximum length of Function.Errors: the worker's message has a bit for each
// sentinel.
const MaxErrors = 48

// sharedErrors are sentinels that errors.Is finds in a worker's error, in addition to those of
// Function.Errors. Context errors are left out: a run that was not canceled must not look canceled.
var sharedErrors = []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, fs.ErrInvalid, io.EOF, io.ErrUnexpectedEOF,
	errors.ErrUnsupported, raster.ErrFormat, raster.ErrUnsupported}

// sentinels returns the errors that both processes know by their index.
func (f *Function) sentinels() []error { return slices.Concat(sharedErrors, f.Errors) }

// encodeValues encodes the values that a block emitted; it returns nil if values do not leave the
// process.
func (f *Function) encodeValues(values []any) ([][]byte, error) {
	if f.Emits == nil {
		return nil, nil
	}
	var list [][]byte
	for _, v := range values {
		b, err := f.Emits.Encode(v)
		if err != nil {
			return nil, fmt.Errorf("the value that it emitted can't be encoded (Job.Emits): %w", err)
		}
		list = append(list, b)
	}
	return list, nil
}

// decodeValues decodes the result of encodeValues.
func (f *Function) decodeValues(list [][]byte) ([]any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if f.Emits == nil {
		return nil, errors.New("the block emitted values, and the job has no codec for them (Job.Emits)")
	}
	var values []any
	for _, b := range list {
		v, err := f.Emits.Decode(slices.Clone(b)) // values may wait for earlier blocks after the buffer is reused
		if err != nil {
			return nil, fmt.Errorf("a value that the block emitted can't be decoded (Job.Emits): %w", err)
		}
		values = append(values, v)
	}
	return values, nil
}
