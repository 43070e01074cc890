package resolve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/rundir"
	"leat/apply/outcome"
	"leat/objstore"
)

// Fetcher is a Store that reads whole objects. Vectors are copied, since GDAL reads local files.
type Fetcher interface {
	// Fetch writes an object to w and returns the store's description of its version.
	Fetch(ctx context.Context, url string, w io.Writer) (objstore.Info, error)
}

// VectorCopy is a local copy of a vector source in a store.
type VectorCopy struct {
	Path    string
	Version objstore.Info
	remove  func() error
}

// CopyVector copies an object to a directory for temporary files. The caller closes the copy; a
// later process removes that of a killed one.
func CopyVector(ctx context.Context, store any, url string) (_ *VectorCopy, err error) {
	f, ok := store.(Fetcher)
	if !ok {
		return nil, &outcome.JobError{Err: jobspec.Errorf("Vector.Path",
			"%s is in a store, expected a file on the local disk or a name of GDAL's", objstore.Redact(url))}
	}
	dir, err := rundir.Make(os.TempDir())
	if err != nil {
		return nil, err
	}
	c := &VectorCopy{remove: sync.OnceValue(dir.Remove)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	bare, _, _ := strings.Cut(url, "?")
	// GDAL recognizes formats by the endings of names.
	if c.Path = filepath.Join(dir.Path, path.Base(bare)); path.Base(bare) == rundir.Lockfile {
		c.Path += "-"
	}
	to, err := os.OpenFile(c.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	c.Version, err = f.Fetch(ctx, url, to)
	if err = errors.Join(err, to.Close()); err != nil {
		return nil, fmt.Errorf("%s can't be copied to %s: %w", objstore.Redact(url), dir.Path, err)
	}
	return c, nil
}

// Close removes the copy.
func (c *VectorCopy) Close() error { return c.remove() }

// copyVectors copies the vectors of a job that are in stores, and returns the copies by URL.
// Closing the inputs removes them.
func (in *Inputs) copyVectors(ctx context.Context, job *jobspec.Job, store any) (map[string]*VectorCopy, error) {
	copies := map[string]*VectorCopy{}
	var errs []error
	for name, v := range job.Vectors {
		if !objstore.IsURL(v.Path) || copies[v.Path] != nil {
			continue
		}
		c, err := CopyVector(ctx, store, v.Path)
		if err != nil {
			errs = append(errs, fmt.Errorf("vector %s: %w", name, err))
			continue
		}
		copies[v.Path] = c
		before := in.closeStore
		in.closeStore = func() error {
			err := c.Close()
			if before != nil {
				err = errors.Join(err, before())
			}
			return err
		}
	}
	return copies, errors.Join(errs...)
}
