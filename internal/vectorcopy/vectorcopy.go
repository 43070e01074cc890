// Package vectorcopy copies vectors in a store to local files, which GDAL reads.
package vectorcopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/rundir"
	"leat/internal/storeurl"
	"leat/internal/units"
	"leat/objstore"
)

// Fetcher is a Store that reads whole objects. Vectors are copied, since GDAL reads local files.
type Fetcher interface {
	// Fetch writes an object to w and returns the store's description of its version.
	Fetch(ctx context.Context, url string, w io.Writer) (objstore.Info, error)
}

// Copy is a local copy of a vector source in a store.
type Copy struct {
	Path    string
	Version objstore.Info
	remove  func() error
}

// Make copies an object to a directory for temporary files. The caller closes the copy; a
// later process removes that of a killed one. A part of the disk stays free.
func Make(ctx context.Context, f Fetcher, url string) (*Copy, error) {
	return makeCopy(ctx, f, url, copyLimit(os.TempDir()))
}

// copyLimit returns how many bytes a copy in dir may have. It leaves a twentieth of the disk free,
// or half of the free space if that is less.
func copyLimit(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return math.MaxInt64 // writing returns the error
	}
	free, whole := int64(st.Bavail)*int64(st.Bsize), int64(st.Blocks)*int64(st.Bsize)
	return free - min(free/2, whole/20)
}

// limitedWriter writes at most left bytes. A write of more returns err.
type limitedWriter struct {
	w    io.Writer
	left int64
	err  error
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if int64(len(b)) > l.left {
		return 0, l.err
	}
	n, err := l.w.Write(b)
	l.left -= int64(n)
	return n, err
}

func makeCopy(ctx context.Context, f Fetcher, url string, limit int64) (_ *Copy, err error) {
	dir, err := rundir.Make(os.TempDir())
	if err != nil {
		return nil, err
	}
	c := &Copy{remove: sync.OnceValue(dir.Remove)}
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
	c.Version, err = f.Fetch(ctx, url, &limitedWriter{to, limit,
		fmt.Errorf("it has more than the %s that a copy may take of this disk", units.FormatSize(limit))})
	if err = errors.Join(err, to.Close()); err != nil {
		return nil, fmt.Errorf("%s can't be copied to %s: %w", storeurl.Redact(url), dir.Path, err)
	}
	return c, nil
}

// Close removes the copy.
func (c *Copy) Close() error { return c.remove() }
