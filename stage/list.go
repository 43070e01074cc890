package stage

import (
	"context"
	"iter"
	"time"

	"leat/stage/internal/ledger"
)

// Object is what a directory has of an object.
type Object struct {
	Source    string    `json:"source"`     // the object, as a URL without secrets; "#file" behind it: a copy that is a file of its own, see Reader.Path
	Size      int64     `json:"size"`       // bytes
	DiskBytes int64     `json:"disk_bytes"` // that it takes, in whole blocks
	Packed    bool      `json:"packed"`     // it lies in a file together with others
	ETag      string    `json:"etag"`       // the store's name of this version; "" where there is none
	Modified  time.Time `json:"modified"`   // at its source; zero: not known
	Used      time.Time `json:"used"`       // by any process; of one in use, when that began
	Checked   time.Time `json:"checked"`    // when its source was last seen to have this version
}

// Objects yields what the directory has, in no order. What is copied or removed meanwhile may be among it or not. The loop must not use the pool. After an error there is
// nothing more.
func (p *Pool) Objects() iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if !p.enter() {
			yield(Object{}, ErrClosed)
			return
		}
		defer p.leave()
		on := true
		err := p.books.Each(func(o ledger.Object) bool {
			on = yield(Object{Source: o.Name, Size: o.Size, DiskBytes: o.Charge, Packed: o.Place.Packed(), ETag: o.ETag, Modified: o.Modified,
				Used: o.Used, Checked: o.Checked}, nil)
			return on
		})
		if err != nil && on {
			yield(Object{}, err)
		}
	}
}

// Has tells whether an object is staged whole, in whichever version: then a Lazy gives it from the local disk, unless its source has another version by now. It asks
// nothing of the source, copies nothing, and keeps nothing: the object may be removed the moment after. After Close it is false.
func (p *Pool) Has(src Source, name string) bool {
	if !p.enter() {
		return false
	}
	defer p.leave()
	return p.books.Has(keyOf(src.ID(name)))
}

// Trim removes objects that nobody uses, about in the order in which they were last used, until all that is left takes no more than so many bytes of the disk. It returns how many it
// removed; what is in use may still take more. ctx ends it between two objects.
func (p *Pool) Trim(ctx context.Context, bytes int64) (removed int, err error) {
	if !p.enter() {
		return 0, ErrClosed
	}
	defer p.leave()
	defer func() { p.count(countEvicted, int64(removed)) }()
	enough := func() bool {
		taken, _ := p.books.Taken()
		return taken <= bytes || ctx.Err() != nil
	}
	if removed, err = p.books.Evict(enough); err != nil {
		return removed, err
	}
	return removed, ctx.Err()
}

// RemoveUnused removes objects that nobody uses, and that nobody has used since a time. It returns how many. ctx ends it between two objects.
func (p *Pool) RemoveUnused(ctx context.Context, since time.Time) (removed int, err error) {
	if !p.enter() {
		return 0, ErrClosed
	}
	defer p.leave()
	defer func() { p.count(countEvicted, int64(removed)) }()
	var old []ledger.Key
	if err := p.books.Each(func(o ledger.Object) bool {
		if o.Used.Before(since) {
			old = append(old, o.Key)
		}
		return ctx.Err() == nil
	}); err != nil {
		return 0, err
	}
	for _, key := range old {
		if ctx.Err() != nil {
			break
		}
		e, err := p.books.Peek(key)
		if err != nil {
			return removed, err
		}
		if e == nil {
			continue
		}
		if !e.Used.Before(since) { // somebody has used it by now
			e.Unpin()
			continue
		}
		gone, err := e.Drop()
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, ctx.Err()
}
