package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"leat/objstore"
	"leat/objstore/ranged"
	"leat/raster"
	"leat/stage"
)

// object is one version of an object: its bytes come from the store, or from the local disk once it was staged. It is a raster.Fetcher.
type object struct {
	s      *Stores
	bucket *objstore.Bucket
	name   string
	label  string // its URL without secrets
	far    *ranged.Reader
	near   atomic.Pointer[stage.Reader]

	beside   []string                 // suffixes of the files beside it that count
	versions map[string]objstore.Info // of those of them that change what pixels mean

	mu   sync.Mutex
	lazy *stage.Lazy
}

// Beside are the suffixes of the files beside the raster that belong to it.
func (o *object) Beside() []string { return o.beside }

// BesideVersions implements apply.Accompanied.
func (o *object) BesideVersions() map[string]objstore.Info { return o.versions }

// ReadAt is io.ReaderAt's.
func (o *object) ReadAt(b []byte, at int64) (int, error) {
	if r := o.near.Load(); r != nil {
		return r.ReadAt(b, at)
	}
	return o.far.ReadAt(b, at)
}

// Fetch implements raster.Fetcher. What is on the local disk needs no fetching.
func (o *object) Fetch(ranges []raster.Range) (release func()) {
	if o.near.Load() != nil {
		return func() {}
	}
	return o.far.Fetch(ranges)
}

// Version is what the store says of the version that is read.
func (o *object) Version() objstore.Info { return o.far.Info() }

// Brought is how many bytes were asked for piece by piece.
func (o *object) Brought() int64 { return o.far.Counters().Bytes }

// Pieces returns why the object can't be read piece by piece, nil where it can.
func (o *object) Pieces() error {
	if o.far.Info().Whole {
		return fmt.Errorf("%s: its server gives no parts of it", o.label)
	}
	return nil
}

// Staging returns why the object can't be staged, nil where it can as far as is known before the stage is opened.
func (o *object) Staging() error {
	if o.s.o.NoStage {
		return errors.New("there is no stage")
	}
	if size, most := o.far.Size(), o.s.maxStageBytes(); size > most {
		return fmt.Errorf("%s is larger than all that the stage may hold", o.label)
	}
	return nil
}

// Here tells whether the whole object is on local disk already. A stage that is not there yet is not made for the question.
func (o *object) Here() bool {
	if o.Staging() != nil || !stage.Exists(o.s.o.StageDir) {
		return false
	}
	pool, err := o.s.stage()
	return err == nil && pool.Has(o.bucket, o.name)
}

// Stage begins to bring the whole object to local disk, and returns at once; false: it is to be read in pieces after all.
func (o *object) Stage() (bool, error) { return o.begin((*stage.Pool).Prefetch) }

// StageFile is Stage where [object.LocalPath] is wanted.
func (o *object) StageFile() (bool, error) { return o.begin((*stage.Pool).PrefetchFile) }

// LocalPath is the name of a local file that holds exactly the object, once Wait has returned and until Done.
func (o *object) LocalPath() (string, error) {
	r := o.near.Load()
	if r == nil {
		return "", fmt.Errorf("%s: there is no room for it on the local disk: make some (leat stage gc), or copy it first, with: leat stage get", o.label)
	}
	return r.Path()
}

func (o *object) begin(prefetch func(p *stage.Pool, src stage.Source, name string) *stage.Lazy) (bool, error) {
	pool, err := o.s.staged(o)
	if pool == nil {
		if err == nil && !o.Version().Versioned() {
			o.s.warnUnversioned(o)
		}
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lazy == nil {
		o.lazy = prefetch(pool, o.bucket, o.name)
	}
	return true, nil
}

// Wait waits for what Stage began; from then on reading is local. Where there was no room reading goes on piece by piece. Another version than the one
// that was opened is objstore.ErrChanged.
func (o *object) Wait(ctx context.Context) error {
	o.mu.Lock()
	lazy := o.lazy
	o.mu.Unlock()
	if lazy == nil || o.near.Load() != nil {
		return nil
	}
	r, err := lazy.Open(ctx)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.lazy != lazy && errors.Is(err, stage.ErrClosed) {
			return nil // another reader saw meanwhile that there is no room, and gave it back: in pieces then
		}
		return err
	}
	switch {
	case r.Size() != o.far.Size() || !objstore.Same(r.Version(), o.far.Info()):
		return errors.Join(&objstore.Error{Op: "staging", URL: o.label, Err: objstore.ErrChanged}, r.Close())
	case !r.Staged() && o.Pieces() == nil:
		// Its bytes would be in memory, all of them.
		o.giveBack()
		if !o.Version().Versioned() {
			o.s.warnUnversioned(o)
		}
		return r.Close()
	}
	if !o.Version().Versioned() { // the header came from the store
		same, err := sameHead(r, o.far, o.far.Size())
		if err == nil && !same {
			err = &objstore.Error{Op: "staging", URL: o.label, Err: objstore.ErrChanged}
		}
		if err != nil {
			return errors.Join(err, r.Close())
		}
	}
	if !o.near.CompareAndSwap(nil, r) {
		return r.Close()
	}
	return nil
}

// Done tells that no read will follow: what was staged may make room for others.
func (o *object) Done() error {
	o.giveBack()
	if r := o.near.Swap(nil); r != nil {
		return r.Close()
	}
	return nil
}

func (o *object) giveBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lazy != nil {
		o.lazy.Release()
		o.lazy = nil
	}
}

// Close ends reading and requests under way.
func (o *object) Close() error { return errors.Join(o.Done(), o.far.Close()) }
