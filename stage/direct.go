package stage

import (
	"context"
	"time"

	"leat/stage/internal/index"
)

// Direct returns a Pool that stages nothing: it has no directory, and each Ref reads its object
// from the source when it is opened. With it, a program that uses a stage also runs where there is
// no local disk, or none to spare. Of o only Retry matters. Ref.WaitStaged and Reader.Path return
// ErrNoSpace; Dir returns "".
func Direct(o *Options) (*Pool, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return newPool(context.Background(), opts), nil
}

// newPool returns a Pool without a directory.
func newPool(ctx context.Context, o Options) *Pool {
	p := &Pool{o: o, opened: time.Now(), items: map[index.Key]*item{}, elsewhere: map[*item]struct{}{},
		wake: make(chan struct{}, 1), ranges: make(chan struct{}, max(16, o.Ranges))}
	p.retry = p.countingRetry()
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

// stages reports whether the pool has a directory.
func (p *Pool) stages() bool { return p.index != nil }
