package stores

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"leat/apply/outcome"
	"leat/internal/ranged"
	"leat/objstore"
	"leat/stage"
)

// headBytes is the number of bytes that opening a file reads.
const headBytes = 32 << 10

// memoryBytes is the size up to which a sidecar that is read as a whole is kept in memory, outside
// the run's memory budget.
const memoryBytes = 4 << 20

// wholeFile is a sidecar that is read as a whole, since its server does not identify versions or
// does not support ranges, so that each piece costs all bytes before it. The first read beyond its
// beginning loads it.
type wholeFile struct {
	s      *Stores
	ctx    context.Context
	bucket *objstore.Bucket
	name   string
	label  string
	remote *ranged.Reader

	once  sync.Once
	all   io.ReaderAt
	err   error
	ref   *stage.Ref
	local *stage.Reader
}

// ReadAt implements io.ReaderAt.
func (w *wholeFile) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) <= min(headBytes, w.remote.Size()) {
		return w.remote.ReadAt(b, at)
	}
	w.once.Do(func() { w.err = w.load() })
	if w.err != nil {
		return 0, w.err
	}
	return w.all.ReadAt(b, at)
}

func (w *wholeFile) load() error {
	version := w.remote.Info()
	if version.Size <= memoryBytes {
		_, body, err := w.s.o.Store.Retry.Read(w.ctx, w.bucket, w.name, 0, -1, &version)
		if err != nil {
			return err
		}
		defer body.Close()
		data := make([]byte, version.Size)
		if _, err := objstore.ReadFull(body, data); err != nil {
			return &objstore.Error{Op: "reading", URL: w.label, Err: err}
		}
		w.all = bytes.NewReader(data)
	} else {
		pool, err := w.s.stage()
		if err != nil {
			return &outcome.FieldError{Field: "Input.Source",
				Err: fmt.Errorf("%s can't be read in pieces and can't be staged: %w", w.label, err)}
		}
		w.ref = pool.Prefetch(w.bucket, w.name)
		if w.local, err = w.ref.Open(w.ctx); err != nil {
			return err
		}
		if w.local.Size() != version.Size || !objstore.SameVersion(w.local.Version(), version) {
			return &objstore.Error{Op: "staging", URL: w.label, Err: objstore.ErrChanged}
		}
		w.all = w.local
	}
	same, err := w.remote.Matches(w.all)
	if err == nil && !same {
		err = &objstore.Error{Op: "reading", URL: w.label, Err: objstore.ErrChanged}
	}
	return err
}

// Close releases the local copy and cancels requests.
func (w *wholeFile) Close() error {
	err := w.remote.Close()
	if w.local != nil {
		if cerr := w.local.Close(); err == nil {
			err = cerr
		}
	}
	if w.ref != nil {
		w.ref.Release()
	}
	return err
}
