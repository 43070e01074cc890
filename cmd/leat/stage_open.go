package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"leat/internal/listen"
	"leat/internal/stagemetrics"
	"leat/objstore"
	"leat/objstore/cloud"
	"leat/stage"
)

// staging is a pool and the buckets that it is filled from.
type staging struct {
	pool    *stage.Pool // nil: there is no space for a stage
	people  io.Writer
	metrics *listen.Server
	stores  *objstore.Options
	waiting waiting
	close   func() error
	stop    func() bool // from then on, the end of ctx does not call close

	mu      sync.Mutex
	buckets map[string]*objstore.Bucket
}

// open opens a pool. It is closed as soon as ctx ends: then every reading ends too.
func (f *stageFlags) open(cmd *cobra.Command, o *stage.Options) (_ *staging, err error) {
	dir, err := f.root()
	if err != nil {
		return nil, err
	}
	s := &staging{people: cmd.ErrOrStderr(), buckets: map[string]*objstore.Bucket{}}
	o.Retry.OnRetry = s.waiting.note
	s.stores = &objstore.Options{Endpoint: f.endpoint, Region: f.region, Anonymous: f.anonymous,
		Drivers: cloud.Drivers(), Retry: o.Retry}
	o.Logger = slog.New(&peopleHandler{w: s.people})
	s.pool, err = stage.Open(cmd.Context(), dir, o)
	if errors.Is(err, stage.ErrNoSpace) && f.canRead && f.metrics == "" {
		s.warn(fmt.Errorf("objects are read without being staged: %w", err))
		s.close, s.stop = func() error { return nil }, func() bool { return true }
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.close = sync.OnceValue(s.pool.Close)
	s.stop = context.AfterFunc(cmd.Context(), func() { _ = s.close() })
	if f.metrics != "" {
		if s.metrics, err = listen.Metrics(f.metrics, stagemetrics.New(s.pool).AddTo); err != nil {
			return nil, errors.Join(fmt.Errorf("--metrics %s: nothing can listen there: %w", f.metrics,
				networkCause(err)), s.end())
		}
		fmt.Fprintln(s.people, "leat: metrics at", s.metrics.URL)
	}
	return s, nil
}

// end closes everything.
func (s *staging) end() error {
	s.stop()
	err := s.close()
	if s.metrics != nil {
		err = errors.Join(err, s.metrics.Close())
	}
	for _, b := range s.buckets {
		err = errors.Join(err, b.Close())
	}
	return err
}

// warn writes an error that does not end the command.
func (s *staging) warn(err error) {
	printWarning(s.people, err)
}

// bucket opens a bucket, or gives the one that is open.
func (s *staging) bucket(ctx context.Context, bucketURL string) (*objstore.Bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[bucketURL]; b != nil {
		return b, nil
	}
	b, err := objstore.Open(ctx, bucketURL, s.stores)
	if err != nil {
		return nil, err
	}
	s.buckets[bucketURL] = b
	return b, nil
}

// withSpaceHint adds a hint to an error about space that a stage lacks.
func withSpaceHint(err error) error {
	if errors.Is(err, stage.ErrNoSpace) {
		return hintedError{err, "use a higher --max-bytes or a lower --min-free, or free some of the disk"}
	}
	return err
}

// networkCause is why an address can't be listened at, without the address.
func networkCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
