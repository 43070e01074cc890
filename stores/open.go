package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	neturl "net/url"
	"path"
	"strings"

	"leat/apply"
	"leat/internal/geotiff"
	"leat/internal/npy"
	"leat/internal/ranged"
	"leat/internal/storeurl"
	"leat/objstore"
	"leat/raster"
)

// tiff and array are rasters in a store. They implement apply.Remote.
type tiff struct {
	*geotiff.File
	*object
}

type array struct {
	*npy.File
	*object
}

// Close implements raster.Source.
func (t tiff) Close() error  { return t.File.Close() }
func (a array) Close() error { return a.File.Close() }

var (
	_ apply.Remote = tiff{}
	_ apply.Remote = array{}
	_ apply.Store  = (*Stores)(nil)

	_ apply.Fetcher = (*Stores)(nil)

	// apply finds these optional methods of an apply.Remote by their names.
	_ interface {
		StageFile() (bool, error)
		LocalPath() (string, error)
		SidecarVersions() map[string]objstore.Info
		WaitRanges(context.Context, func() ([]raster.Range, error)) error
	} = tiff{}
)

// LocalPath returns the path of a local file, given as a file: URL or as a path. It returns "" for
// an object in a store.
func LocalPath(url string) (string, error) {
	if !storeurl.Is(url) {
		return url, nil
	}
	if scheme, _, _ := strings.Cut(url, "://"); !strings.EqualFold(scheme, "file") {
		return "", nil
	}
	bucket, name, err := objstore.Split(url)
	if err != nil {
		return "", err
	}
	u, err := neturl.Parse(bucket)
	if err != nil {
		return "", err
	}
	return path.Join(u.Path, name), nil
}

// Open opens the raster at a URL, as a GeoTIFF or .npy file by its content. It opens a local one
// with apply.Open. Canceling ctx ends all reading of a remote raster, including later reads. Errors
// are those of the store and of the drivers; neither they nor Info().Path contain secrets of the
// URL.
func (s *Stores) Open(ctx context.Context, url string) (raster.Source, error) {
	if local, err := LocalPath(url); local != "" || err != nil || url == "" {
		if err != nil {
			return nil, err
		}
		return apply.Open(local)
	}
	b, name, err := s.bucket(ctx, url)
	if err != nil {
		return nil, err
	}
	o := &object{s: s, ctx: ctx, bucket: b, name: name, label: storeurl.Redact(url),
		versions: map[string]objstore.Info{}}
	if strings.Contains(name, "?") || strings.HasSuffix(strings.ToLower(name), ".npy") {
		return s.open(ctx, o, nil)
	}
	// Most rasters have no sidecars, and finding that out takes as long as reading the header, so
	// both run concurrently.
	side := &sidecars{ctx: ctx, o: o, found: map[string]*sidecar{}}
	for _, suffix := range []string{".ovr", ".msk", ".aux.xml"} {
		side.start(suffix, false)
	}
	src, err := s.open(ctx, o, side.open)
	if cerr := side.close(); err == nil && cerr != nil {
		src, err = nil, errors.Join(cerr, src.Close())
	}
	return src, err
}

func (s *Stores) open(ctx context.Context, o *object, openSidecar geotiff.SidecarOpener) (raster.Source, error) {
	var err error
	if o.remote, err = ranged.Open(ctx, o.bucket, o.name, s.ranges()); err != nil {
		return nil, err
	}
	var head [6]byte
	if n, err := o.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.label, err), o.Close())
	} else if string(head[:n]) == "\x93NUMPY" {
		f, err := npy.OpenAt(o, o.remote.Size(), o.label)
		if err != nil {
			return nil, err
		}
		return array{f, o}, nil
	}
	f, err := geotiff.OpenAt(o, o.remote.Size(), o.label, openSidecar)
	if err != nil {
		return nil, err
	}
	return tiff{f, o}, nil
}

// sidecars looks for the sidecars of a raster concurrently.
type sidecars struct {
	ctx   context.Context
	o     *object
	found map[string]*sidecar
}

type sidecar struct {
	done chan struct{}
	r    *ranged.Reader
	err  error
	used bool
}

// siblingOf returns the name of an object's sidecar: the suffix is appended, or replaces the
// extension.
func siblingOf(name, suffix string, instead bool) string {
	if instead {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	return name + suffix
}

func (s *sidecars) start(suffix string, instead bool) *sidecar {
	c := &sidecar{done: make(chan struct{})}
	s.found[suffix] = c
	go func() {
		defer close(c.done)
		c.r, c.err = ranged.Open(s.ctx, s.o.bucket, siblingOf(s.o.name, suffix, instead), s.o.s.ranges())
		if c.err == nil && !plausible(c.r, suffix) {
			c.r, c.err = nil, errors.Join(fs.ErrNotExist, c.r.Close())
		}
		if errors.Is(c.err, fs.ErrPermission) { // some stores deny access to missing objects
			s.o.s.warnRefused(c.err)
			c.err = fs.ErrNotExist
		}
	}()
	return c
}

// plausible reports whether the object can be a sidecar: some servers answer every request with an
// HTML page.
func plausible(r *ranged.Reader, suffix string) bool {
	head := make([]byte, min(r.Size(), 1024))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return true // the error will be reported
	}
	page := bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(head)),
		[]byte("<!doctype")) || bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(head)), []byte("<html"))
	return !page
}

// open implements geotiff.SidecarOpener.
func (s *sidecars) open(suffix string, instead bool) (io.ReaderAt, int64, string, error) {
	name := siblingOf(s.o.label, suffix, instead)
	c := s.found[suffix]
	if c == nil {
		c = s.start(suffix, instead)
	}
	<-c.done
	if c.err != nil {
		return nil, 0, name, c.err
	}
	c.used = true
	if suffix == ".msk" || suffix == ".aux.xml" {
		s.o.versions[suffix] = c.r.Info()
	}
	if i := c.r.Info(); i.Size > headBytes && (i.NoRanges || !i.Versioned()) {
		w := &wholeFile{s: s.o.s, ctx: s.ctx, bucket: s.o.bucket, name: siblingOf(s.o.name, suffix, instead),
			label: name, remote: c.r}
		return w, i.Size, name, nil
	}
	return c.r, c.r.Size(), name, nil
}

// close closes the sidecars that were found but not used.
func (s *sidecars) close() error {
	var errs []error
	for _, c := range s.found {
		<-c.done
		if c.err == nil && !c.used {
			errs = append(errs, c.r.Close())
		}
	}
	return errors.Join(errs...)
}
