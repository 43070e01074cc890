// Package remote opens rasters that lie in stores, for jobs of package apply: [Stores] is what Job.Open and Job.Store take.
//
// A raster is opened by its header alone. What more a run needs it either reads piece by piece, several requests at a time and before they are needed, or has
// brought to local disk as a whole, where all runs of a machine share it (package stage). Either way the whole run reads one version of it.
//
// What lies beside a GeoTIFF (.ovr, .msk, .aux.xml, world files) is looked for as it is beside a local one, but not where the URL has a query, since a
// signature holds for one object only.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"leat/objstore"
	"leat/objstore/ranged"
	"leat/stage"
)

// Options say how stores are reached; nil, and zero fields, are the defaults.
type Options struct {
	Store    objstore.Options
	Requests int // under way at once, for all rasters read piece by piece; default 16
	// NoStage: nothing is brought to local disk. StageDir is where it lies otherwise, as stage.Open says, and Stage how.
	NoStage  bool
	StageDir string
	Stage    stage.Options
	// Warn is told what people should know and is no error, each once: that there can be no stage where none was asked for, that a store does not tell what lies beside
	// a raster, that it tells no versions. It may be called by several goroutines. Default: nothing.
	Warn func(error)
}

// Stores opens rasters by URL and takes finished ones. It may be used by many goroutines.
type Stores struct {
	o       Options
	limiter *ranged.Limiter

	mu       sync.Mutex
	buckets  map[string]*objstore.Bucket // by URL
	pool     *stage.Pool
	poolErr  error
	poolOnce sync.Once
	warnings [3]sync.Once
}

// New returns Stores. Nothing is asked of any store, and no folder is made, before a raster needs it.
func New(o *Options) *Stores {
	s := &Stores{buckets: map[string]*objstore.Bucket{}}
	if o != nil {
		s.o = *o
	}
	if s.o.Requests <= 0 {
		s.o.Requests = 16
	}
	s.limiter = ranged.NewLimiter(s.o.Requests)
	return s
}

// Close ends the use of all stores. Rasters must be closed before.
func (s *Stores) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.pool != nil {
		errs = append(errs, s.pool.Close())
		s.pool, s.poolErr = nil, stage.ErrClosed
	}
	for _, b := range s.buckets {
		errs = append(errs, b.Close())
	}
	clear(s.buckets)
	return errors.Join(errs...)
}

// bucket opens the bucket of an object once for all its objects.
func (s *Stores) bucket(ctx context.Context, url string) (*objstore.Bucket, string, error) {
	at, name, err := objstore.Split(url)
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[at]
	if b == nil {
		// It lives longer than what asks for it first.
		if b, err = objstore.Open(context.WithoutCancel(ctx), at, &s.o.Store); err != nil {
			return nil, "", err
		}
		s.buckets[at] = b
	}
	return b, name, nil
}

// stage opens the stage when it is first needed.
func (s *Stores) stage() (*stage.Pool, error) {
	if s.o.NoStage {
		return nil, errors.New("there is no stage")
	}
	s.poolOnce.Do(func() {
		pool, err := stage.Open(s.o.StageDir, &s.o.Stage)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pool, s.poolErr = pool, err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pool, s.poolErr
}

// staged reports whether there is a stage. Where nobody named its folder, and a file can be read without it, that it can't be is no error.
func (s *Stores) staged(o *object) (*stage.Pool, error) {
	pool, err := s.stage()
	if err == nil || s.o.StageDir != "" || o.Pieces() != nil {
		return pool, err
	}
	s.warn(0, fmt.Errorf("remote inputs are read in pieces, since they can't be staged: %w", err))
	return nil, nil
}

// warn tells of one kind of thing once.
func (s *Stores) warn(kind int, err error) {
	s.warnings[kind].Do(func() {
		if s.o.Warn != nil {
			s.o.Warn(err)
		}
	})
}

// warnRefused tells of a file beside a raster that may not be looked at.
func (s *Stores) warnRefused(err error) {
	s.warn(1, fmt.Errorf("%w; some stores answer so about what is not there: this file, and others beside inputs that are refused so, are taken for not there", err))
}

// warnUnversioned tells that an object is read in pieces that may be of several versions.
func (s *Stores) warnUnversioned(o *object) {
	s.warn(2, fmt.Errorf("%s is read in pieces, and its server tells no version of it: if it is replaced meanwhile, that may go unnoticed", o.label))
}

// maxStageBytes is the most that the stage may hold.
func (s *Stores) maxStageBytes() int64 {
	if s.o.Stage.MaxBytes > 0 {
		return s.o.Stage.MaxBytes
	}
	return 1 << 40
}

func (s *Stores) ranges() *ranged.Options {
	// Little is kept beyond what is held: a job may have thousands of inputs, and keeps the tiles that it needs again itself.
	return &ranged.Options{Retry: s.o.Store.Retry, Limiter: s.limiter, HeadBytes: headBytes, CacheBytes: 256 << 10}
}

// Exists tells whether a store has an object. Where it does not tell, as S3 does for what is not there to those who may not list, the error is fs.ErrPermission.
func (s *Stores) Exists(ctx context.Context, url string) (bool, error) {
	b, name, err := s.bucket(ctx, url)
	if err != nil {
		return false, err
	}
	_, err = s.o.Store.Retry.Stat(ctx, b, name)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, err
}

// Check tells at once whether a URL names an object that could be written, as far as can be told without writing.
func (s *Stores) Check(ctx context.Context, url string) error {
	b, name, err := s.bucket(ctx, url)
	switch {
	case err != nil:
		return err
	case strings.ContainsAny(url[strings.Index(url, "://")+3:], "?#"):
		return fmt.Errorf("%s: a query can't be part of the name of an output: give a bucket and a name, such as s3://bucket/out.tif", objstore.Redact(url))
	case !b.CanUpload():
		return fmt.Errorf("%s: nothing can be written to such a server: give a bucket (s3://, gs://, azblob://) or a local file", objstore.Redact(url))
	}
	// A bucket that is not there would be noticed when all is computed. Of an object alone no store tells which of the two is missing.
	for _, err := range b.List(ctx, name) {
		if errors.Is(err, fs.ErrNotExist) {
			return err
		}
		break
	}
	return nil
}

// Upload writes size bytes of r as an object: whole, or not at all.
func (s *Stores) Upload(ctx context.Context, url string, r io.ReaderAt, size int64, o objstore.UploadOptions) error {
	b, name, err := s.bucket(ctx, url)
	if err != nil {
		return err
	}
	return b.Upload(ctx, name, r, size, o)
}
