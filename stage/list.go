package stage

import (
	"context"
	"errors"
	"iter"
	"time"

	"leat/stage/internal/index"
)

// Object describes a staged object.
type Object struct {
	// URL of the object without secrets; with the suffix "#file" for a copy in a file of its own,
	// see Reader.Path
	Source    string    `json:"source"`
	Size      int64     `json:"size"`       // bytes
	DiskBytes int64     `json:"disk_bytes"` // space on the disk, in whole blocks
	Packed    bool      `json:"packed"`     // stored in a segment with other objects
	ETag      string    `json:"etag"`       // the store's entity tag; "": none
	Modified  time.Time `json:"modified"`   // at the source; zero: unknown
	Used      time.Time `json:"used"`       // last use by any process; for an object in use, when that use began
	Checked   time.Time `json:"checked"`    // when the source was last seen to have this version
}

// Objects yields the objects in the directory, in no particular order. Objects that are copied or
// removed meanwhile may or may not be included. The loop must not use the pool. An error ends the
// sequence.
func (p *Pool) Objects() iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if !p.enter() {
			yield(Object{}, ErrClosed)
			return
		}
		defer p.leave()
		if !p.stages() {
			return
		}
		on := true
		err := p.index.Each(func(o index.Object) bool {
			on = yield(Object{Source: o.Name, Size: o.Size, DiskBytes: o.Charge, Packed: o.Place.Packed(), ETag: o.ETag,
				Modified: o.Modified,
				Used:     o.Used, Checked: o.Checked}, nil)
			return on
		})
		if err != nil && on {
			yield(Object{}, err)
		}
	}
}

// Has reports whether an object is completely staged, in any version. A Ref then reads it from the
// local disk unless its source has a newer version. Has sends no request, copies nothing and pins
// nothing: the object may be evicted right afterwards. After Close it returns false.
func (p *Pool) Has(src Source, name string) bool {
	if !p.enter() {
		return false
	}
	defer p.leave()
	return p.stages() && p.index.Has(keyOf(src.ID(name)))
}

// Trim removes unused objects, approximately the least recently used first, until the rest takes at
// most the given number of bytes on the disk. Objects in use are kept, even if they take more. Trim
// returns the number of removed objects, and a RemoveError for each that it could not remove. It
// stops between two objects when ctx is done.
func (p *Pool) Trim(ctx context.Context, bytes int64) (removed int, err error) {
	if !p.enter() {
		return 0, ErrClosed
	}
	defer p.leave()
	if !p.stages() {
		return 0, nil
	}
	defer func() { p.count(countEvicted, int64(removed)) }()
	enough := func() bool {
		taken, _ := p.index.Taken()
		return taken <= bytes || ctx.Err() != nil
	}
	removed, failed, err := p.index.EvictAll(enough)
	return removed, errors.Join(append(joined(failed), err, ctx.Err())...)
}

// joined returns the errors of objects that could not be removed.
func joined(failed []*RemoveError) (errs []error) {
	for _, e := range failed {
		errs = append(errs, e)
	}
	return errs
}

// RemoveUnused removes objects that are not in use and were last used before since, and all
// replaced versions that are not in use. It returns the number of removed objects, and a
// RemoveError for each that it could not remove. It stops between two objects when ctx is done.
func (p *Pool) RemoveUnused(ctx context.Context, since time.Time) (removed int, err error) {
	if !p.enter() {
		return 0, ErrClosed
	}
	defer p.leave()
	if !p.stages() {
		return 0, nil
	}
	defer func() { p.count(countEvicted, int64(removed)) }()
	removed, failed, err := p.index.EvictReplaced(func() bool { return ctx.Err() != nil })
	errs := append(joined(failed), err)
	if err != nil {
		return removed, errors.Join(errs...)
	}
	var old []index.Key
	if err := p.index.Each(func(o index.Object) bool {
		if o.Used.Before(since) {
			old = append(old, o.Key)
		}
		return ctx.Err() == nil
	}); err != nil {
		return removed, errors.Join(append(errs, err)...)
	}
	for _, key := range old {
		if ctx.Err() != nil {
			break
		}
		e, err := p.index.Peek(key)
		if err != nil {
			return removed, errors.Join(append(errs, err)...)
		}
		if e == nil {
			continue
		}
		if !e.Used.Before(since) { // it was used meanwhile
			e.Unpin()
			continue
		}
		dropped, err := e.Drop()
		errs = append(errs, err)
		if err != nil && !errors.As(err, new(*RemoveError)) {
			break
		}
		if dropped {
			removed++
		}
	}
	return removed, errors.Join(append(errs, ctx.Err())...)
}
