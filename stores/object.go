package stores

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"leat/apply/outcome"
	"leat/internal/ranged"
	"leat/internal/stagedir"
	"leat/objstore"
	"leat/raster"
	"leat/stage"
)

// object is one version of an object. Its bytes come from the store, or from the local disk once it
// is staged. It is a raster.Prefetcher.
type object struct {
	s      *Stores
	bucket *objstore.Bucket
	name   string
	label  string // its URL without secrets
	remote *ranged.Reader
	local  atomic.Pointer[stage.Reader]
	ctx    context.Context // ends all reading
	early  atomic.Bool     // what has arrived of a copy in progress was read; see WaitRanges

	versions map[string]objstore.Info // of the sidecars that affect pixels: .msk, .aux.xml

	mu  sync.Mutex
	ref *stage.Ref
}

// SidecarVersions returns the versions of the sidecars that change the meaning of pixels, by which
// a run detects that one of them was replaced.
func (o *object) SidecarVersions() map[string]objstore.Info { return o.versions }

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(b []byte, at int64) (int, error) {
	if r := o.local.Load(); r != nil {
		return r.ReadAt(b, at)
	}
	if o.early.Load() {
		if ok, err := o.readEarly(b, at); err != nil {
			return 0, err
		} else if ok {
			return len(b), nil
		}
		if r := o.local.Load(); r != nil {
			return r.ReadAt(b, at)
		}
	}
	return o.remote.ReadAt(b, at)
}

// Fetch implements raster.Prefetcher. It does nothing for an object that is staged or being staged.
func (o *object) Fetch(ranges []raster.Range, skip func(raster.Range) bool) (release func()) {
	if o.local.Load() != nil || o.early.Load() {
		return func() {}
	}
	return o.remote.Fetch(ranges, skip)
}

// Version returns the version that is read.
func (o *object) Version() objstore.Info { return o.remote.Info() }

// CheckRanges returns an error if the object can't be read in pieces.
func (o *object) CheckRanges() error {
	if o.remote.Info().NoRanges {
		return fmt.Errorf("%s: the server does not support range requests", o.label)
	}
	return nil
}

// CheckStaging returns an error if the object can't be staged. It does not open the stage, and so
// may miss a cause.
func (o *object) CheckStaging() error {
	if o.s.o.NoStage {
		return errors.New("there is no stage")
	}
	if size, limit := o.remote.Size(), o.s.maxStageBytes(); size > limit {
		return fmt.Errorf("%s is larger than the stage's limit", o.label)
	}
	return nil
}

// Local reports whether the whole object is staged already. It does not create a stage.
func (o *object) Local() bool {
	if o.CheckStaging() != nil || !stagedir.Exists(o.s.o.StageDir) {
		return false
	}
	pool, err := o.s.stage()
	return err == nil && pool.Has(o.bucket, o.name)
}

// Stage starts to stage the object and returns at once. It returns false if the object is read in
// pieces instead.
func (o *object) Stage() (bool, error) { return o.begin(false) }

// StageFile is Stage for callers that need [object.LocalPath].
func (o *object) StageFile() (bool, error) { return o.begin(true) }

// LocalPath returns the path of a local file that holds exactly the object. It is valid after Wait
// and until Done.
func (o *object) LocalPath() (string, error) {
	r := o.local.Load()
	if r == nil {
		return "", &outcome.FieldError{Field: "Input.Source",
			Err: fmt.Errorf("%s: there is no space for it on the local disk", o.label)}
	}
	return r.Path()
}

func (o *object) begin(file bool) (bool, error) {
	pool, err := o.s.staged(o)
	if pool == nil {
		if err == nil && !o.Version().Versioned() {
			o.s.warnUnversioned(o)
		}
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ref == nil {
		o.ref = pool.PrefetchVersion(o.bucket, o.name, o.Version(), file)
	}
	return true, nil
}

// Wait waits for the copy that Stage started; later reads are local. If there was no space, the
// object is still read in pieces. The error is objstore.ErrChanged if the staged version is not the
// opened one.
func (o *object) Wait(ctx context.Context) error {
	ref := o.reference()
	if ref == nil || o.local.Load() != nil {
		return nil
	}
	r, err := ref.Open(ctx)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.ref != ref && errors.Is(err, stage.ErrClosed) {
			return nil // another reader found no space and released ref: read in pieces
		}
		return err
	}
	switch {
	case r.Size() != o.remote.Size() || !objstore.SameVersion(r.Version(), o.remote.Info()):
		return errors.Join(&objstore.Error{Op: "staging", URL: o.label, Err: objstore.ErrChanged}, r.Close())
	case !r.Staged() && o.CheckRanges() == nil:
		// r may hold the whole object in memory.
		o.release()
		if !o.Version().Versioned() {
			o.s.warnUnversioned(o)
		}
		return r.Close()
	}
	same, err := o.remote.Matches(r) // the header was read from the store
	if err == nil && !same {
		err = &objstore.Error{Op: "staging", URL: o.label, Err: objstore.ErrChanged}
	}
	if err != nil {
		return errors.Join(err, r.Close())
	}
	if !o.local.CompareAndSwap(nil, r) {
		return r.Close()
	}
	return nil
}

// WaitRanges is Wait for the ranges that list returns. While this process copies the object, it
// waits only until they have arrived.
func (o *object) WaitRanges(ctx context.Context, list func() ([]raster.Range, error)) error {
	ref := o.reference()
	if ref == nil || o.local.Load() != nil {
		return nil
	}
	ranges, err := list()
	if err != nil || len(ranges) == 0 {
		return err
	}
	for _, r := range ranges {
		ok, err := ref.WaitRange(ctx, o.Version(), r.Offset, r.Bytes)
		if err != nil && !errors.Is(err, stage.ErrClosed) { // Wait would copy the object again
			return err
		}
		if !ok {
			return o.Wait(ctx)
		}
	}
	o.early.Store(true)
	return nil
}

// readEarly reads from a copy in progress, and waits for the bytes. It returns false if the bytes
// are to be read as Wait has left it.
func (o *object) readEarly(b []byte, at int64) (bool, error) {
	if ref := o.reference(); ref != nil && at >= 0 && at <= o.remote.Size()-int64(len(b)) {
		ok, err := ref.ReadUnfinished(o.ctx, o.Version(), b, at)
		if ok || err != nil && !errors.Is(err, stage.ErrClosed) {
			return ok, err
		}
	}
	return false, o.Wait(o.ctx)
}

func (o *object) reference() *stage.Ref {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ref
}

// Done is called after the last read. It waits for the rest of a copy in progress, which the next
// run will use. The stage may then evict the object.
func (o *object) Done() error {
	var err error
	if ref := o.reference(); ref != nil && o.early.Load() && o.local.Load() == nil {
		err = ref.WaitCopy(o.ctx)
	}
	return errors.Join(err, o.end())
}

func (o *object) end() error {
	o.release()
	if r := o.local.Swap(nil); r != nil {
		return r.Close()
	}
	return nil
}

func (o *object) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ref != nil {
		o.ref.Release()
		o.ref = nil
	}
	o.early.Store(false)
}

// Close ends reading and cancels requests.
func (o *object) Close() error { return errors.Join(o.end(), o.remote.Close()) }
