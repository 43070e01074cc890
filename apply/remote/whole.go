package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"leat/objstore"
	"leat/objstore/ranged"
	"leat/stage"
)

// headBytes is what is read of a file when it is opened.
const headBytes = 32 << 10

// memoryBytes is the size up to which a file that is read as a whole is kept in memory: the budget of a run does not know of it.
const memoryBytes = 4 << 20

// sameHead reports whether two readers give one beginning: all that is left to compare where versions are not told.
func sameHead(a, b io.ReaderAt, size int64) (bool, error) {
	var heads [2][]byte
	for i, r := range []io.ReaderAt{a, b} {
		heads[i] = make([]byte, min(size, headBytes))
		if n, err := r.ReadAt(heads[i], 0); err != nil && (err != io.EOF || n < len(heads[i])) {
			return false, err
		}
	}
	return bytes.Equal(heads[0], heads[1]), nil
}

// whole is a file beside a raster that can't well be read in pieces: its server gives none, so that each would cost all that lies before it, or tells no
// version. What lies behind its beginning is brought as a whole when it is first needed.
type whole struct {
	s      *Stores
	ctx    context.Context
	bucket *objstore.Bucket
	name   string
	label  string
	far    *ranged.Reader

	once sync.Once
	all  io.ReaderAt
	err  error
	lazy *stage.Lazy
	near *stage.Reader
}

// ReadAt is io.ReaderAt's.
func (w *whole) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) <= min(headBytes, w.far.Size()) {
		return w.far.ReadAt(b, at)
	}
	w.once.Do(func() { w.err = w.bring() })
	if w.err != nil {
		return 0, w.err
	}
	return w.all.ReadAt(b, at)
}

func (w *whole) bring() error {
	version := w.far.Info()
	if version.Size <= memoryBytes {
		_, body, err := w.s.o.Store.Retry.Read(w.ctx, w.bucket, w.name, 0, -1, &version)
		if err != nil {
			return err
		}
		defer body.Close()
		data := make([]byte, version.Size)
		if _, err := io.ReadFull(body, data); err != nil {
			return &objstore.Error{Op: "reading", URL: w.label, Err: err}
		}
		w.all = bytes.NewReader(data)
	} else {
		pool, err := w.s.stage()
		if err != nil {
			return fmt.Errorf("%s can't be read in pieces and not be brought to local disk: %w: allow a stage, or copy it and its raster here first, with: leat stage get", w.label, err)
		}
		w.lazy = pool.Prefetch(w.bucket, w.name)
		if w.near, err = w.lazy.Open(w.ctx); err != nil {
			return err
		}
		if w.near.Size() != version.Size || !objstore.Same(w.near.Version(), version) {
			return &objstore.Error{Op: "staging", URL: w.label, Err: objstore.ErrChanged}
		}
		w.all = w.near
	}
	if version.Versioned() {
		return nil
	}
	same, err := sameHead(w.all, w.far, version.Size)
	if err == nil && !same {
		err = &objstore.Error{Op: "reading", URL: w.label, Err: objstore.ErrChanged}
	}
	return err
}

// Close ends reading.
func (w *whole) Close() error {
	err := w.far.Close()
	if w.near != nil {
		if cerr := w.near.Close(); err == nil {
			err = cerr
		}
	}
	if w.lazy != nil {
		w.lazy.Release()
	}
	return err
}
