// Package stores opens rasters in stores, for jobs of package apply: [Stores] provides Job.Open and
// Job.Store.
//
// Opening a raster reads only its header. Further bytes are either read in pieces, by several
// concurrent requests ahead of the blocks that need them, or staged as a whole on local disk, where
// all runs on the machine share them (package stage). In both cases a run reads one version.
//
// Opening a GeoTIFF also looks for its sidecars (.ovr, .msk, .aux.xml, world files), as for a local
// file, unless the URL has a query: a signature is valid for one object only.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync"

	"leat/internal/ranged"
	"leat/internal/storeurl"
	"leat/objstore"
	"leat/stage"
)

// Options configure Stores; nil and zero fields mean the defaults.
type Options struct {
	Store    objstore.Options
	Requests int // maximum number of concurrent requests of rasters read in pieces; default 32
	// NoStage disables staging. StageDir and Stage are the arguments of stage.Open.
	NoStage  bool
	StageDir string
	Stage    stage.Options
	// Logger receives warnings, each kind once: the stage can't be opened, and objects are read in
	// pieces instead; a store denies access to sidecars; a server reports no versions. The stage
	// has it too, unless Stage.Logger is set. Default: none.
	Logger *slog.Logger
}

// Stores opens rasters by URL and uploads finished ones. It is safe for concurrent use.
type Stores struct {
	o       Options
	limiter *ranged.Limiter

	mu       sync.Mutex
	buckets  map[string]*objstore.Bucket // by URL
	pool     *stage.Pool
	poolErr  error
	poolOnce sync.Once
	// One for each kind of warning.
	noStage, refused, unversioned sync.Once
}

// New returns Stores. It sends no request and creates no directory; the first raster that needs one
// does.
func New(o *Options) *Stores {
	s := &Stores{buckets: map[string]*objstore.Bucket{}}
	if o != nil {
		s.o = *o
	}
	if s.o.Requests <= 0 {
		s.o.Requests = 32
	}
	if s.o.Logger == nil {
		s.o.Logger = slog.New(slog.DiscardHandler)
	}
	if s.o.Stage.Logger == nil {
		s.o.Stage.Logger = s.o.Logger
	}
	s.limiter = ranged.NewLimiter(s.o.Requests)
	return s
}

// Close closes the stage and the buckets. The rasters must be closed first.
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

// bucket returns the bucket of an object, and the object's name. It opens each bucket once.
func (s *Stores) bucket(ctx context.Context, url string) (*objstore.Bucket, string, error) {
	at, name, err := objstore.Split(url)
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[at]
	if b == nil {
		// The bucket outlives the request that opens it.
		if b, err = objstore.Open(context.WithoutCancel(ctx), at, &s.o.Store); err != nil {
			return nil, "", err
		}
		s.buckets[at] = b
	}
	return b, name, nil
}

// stage returns the stage, which the first call opens.
func (s *Stores) stage() (*stage.Pool, error) {
	if s.o.NoStage {
		return nil, errors.New("there is no stage")
	}
	s.poolOnce.Do(func() {
		pool, err := stage.Open(context.Background(), s.o.StageDir, &s.o.Stage)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pool, s.poolErr = pool, err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pool, s.poolErr
}

// staged returns the stage. If it can't be opened, and o can be read without it, staged warns and
// returns nil, unless the user chose the directory and it fails for another reason than a full
// disk.
func (s *Stores) staged(o *object) (*stage.Pool, error) {
	pool, err := s.stage()
	if err == nil || s.o.StageDir != "" && !errors.Is(err, stage.ErrNoSpace) || o.CheckRanges() != nil {
		return pool, err
	}
	s.noStage.Do(func() { s.o.Logger.Warn("remote inputs read in pieces, not staged", "error", err) })
	return nil, nil
}

// warnRefused warns once about a sidecar to which a store denies access. Some stores also do so for
// missing objects.
func (s *Stores) warnRefused(err error) {
	s.refused.Do(func() { s.o.Logger.Warn("refused sidecars treated as missing", "error", err) })
}

// warnUnversioned warns once that an object is read in pieces that may belong to several versions.
func (s *Stores) warnUnversioned(o *object) {
	s.unversioned.Do(func() {
		s.o.Logger.Warn("replacement of input undetectable", "input", o.label, "error", errUnversioned)
	})
}

var errUnversioned = errors.New("it is read in pieces, and its server reports no version")

// maxStageBytes returns the stage's limit.
func (s *Stores) maxStageBytes() int64 {
	if s.o.Stage.MaxBytes > 0 {
		return s.o.Stage.MaxBytes
	}
	return 1 << 40
}

func (s *Stores) ranges() *ranged.Options {
	// The cache is small: a job may have thousands of inputs, and keeps the tiles that it needs
	// again itself.
	return &ranged.Options{Retry: s.o.Store.Retry, Limiter: s.limiter, HeadBytes: headBytes, CacheBytes: 256 << 10}
}

// Exists reports whether a store has an object. The error is fs.ErrPermission if the store does not
// reveal that, as S3 for a missing object without permission to list.
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

// Check returns an error if the URL can't name an output, as far as that is known without writing.
func (s *Stores) Check(ctx context.Context, url string) error {
	b, name, err := s.bucket(ctx, url)
	switch {
	case err != nil:
		return err
	case strings.ContainsAny(url[strings.Index(url, "://")+3:], "?#"):
		return fmt.Errorf("%s: the name of an output can't have a query, expected a bucket and a name", storeurl.Redact(url))
	case !b.CanUpload():
		return fmt.Errorf("%s: the server can't be written to, expected a bucket (s3://, gs://, azblob://) or a local file", storeurl.Redact(url))
	}
	// A missing bucket would otherwise be detected only after the computation. The answer about a
	// single object does not distinguish a missing bucket from a missing object.
	for _, err := range b.List(ctx, name) {
		if errors.Is(err, fs.ErrNotExist) {
			return err
		}
		break
	}
	return nil
}

// Upload writes size bytes of r as an object, completely or not at all.
func (s *Stores) Upload(ctx context.Context, url string, r io.ReaderAt, size int64, o objstore.UploadOptions) error {
	b, name, err := s.bucket(ctx, url)
	if err != nil {
		return err
	}
	return b.Upload(ctx, name, r, size, o)
}
