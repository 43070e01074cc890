package exec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"leat/apply/internal/spool"
)

// workerValue is what Close returned for a state that has computed blocks.
type workerValue struct {
	worker int
	value  any
}

// addWorker keeps a value for mergeWorkers.
func (r *results) addWorker(v workerValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = append(r.workers, v)
}

// mergeWorkers passes the values of all workers to merge, which may be nil, in the order of worker
// numbers and then of slots.
func (r *results) mergeWorkers(merge func(worker int, value any) error) error {
	if merge == nil {
		return nil
	}
	slices.SortStableFunc(r.workers, func(a, b workerValue) int { return a.worker - b.worker })
	for _, v := range r.workers {
		if err := merge(v.worker, v.value); err != nil {
			return fmt.Errorf("merging the value of worker %d: %w", v.worker+1, err)
		}
	}
	return nil
}

// encodeWorkerValue encodes a value of Close: its length in 4 bytes, little-endian, and its bytes.
func (f *Function) encodeWorkerValue(value any, abort func(error)) ([]byte, error) {
	var b []byte
	err := call("WorkerValues", abort, func() (err error) {
		b, err = f.WorkerValues.Encode(value)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the value that Close returned can't be encoded (WorkerValues): %w", err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...), nil
}

// decodeWorkerValues decodes the values of a worker process, in the order of its slots.
func (f *Function) decodeWorkerValues(body []byte) (values []any, err error) {
	t := spool.Decoder{Rest: body}
	for len(t.Rest) > 0 {
		b := t.Take(t.Uint32())
		if t.Torn {
			return nil, errors.New("its value is not as long as it says")
		}
		var v any
		err := call("WorkerValues", nil, func() (err error) {
			v, err = f.WorkerValues.Decode(b)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("its value can't be decoded (WorkerValues): %w", err)
		}
		values = append(values, v)
	}
	return values, nil
}
