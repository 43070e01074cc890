package remote

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
	"leat/objstore"
	"leat/objstore/ranged"
	"leat/raster"
	"leat/raster/geotiff"
	"leat/raster/npy"
)

// tiff and array are rasters in a store. They are apply.Remote.
type tiff struct {
	*geotiff.File
	*object
}

type array struct {
	*npy.File
	*object
}

// Close ends reading.
func (t tiff) Close() error  { return t.File.Close() }
func (a array) Close() error { return a.File.Close() }

var (
	_ apply.Remote = tiff{}
	_ apply.Remote = array{}
	_ apply.Store  = (*Stores)(nil)

	_ apply.Accompanied = tiff{}
)

// LocalPath is the path of a local file: of a file: URL, or what is no URL. It is "" for what lies in a store.
func LocalPath(url string) (string, error) {
	if !objstore.IsURL(url) {
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

// Open opens the raster at a URL by its content, GeoTIFF or .npy; a local one as apply.Open does. ctx ends all reading of it, later too. Errors are those of
// the store and of the drivers; neither they nor Info().Path have secrets of the URL.
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
	o := &object{s: s, bucket: b, name: name, label: objstore.Redact(url), versions: map[string]objstore.Info{}}
	if strings.Contains(name, "?") || strings.HasSuffix(strings.ToLower(name), ".npy") {
		return s.open(ctx, o, nil)
	}
	// That there is nothing beside the file is most often so, and takes as long to learn as the header does.
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

func (s *Stores) open(ctx context.Context, o *object, beside geotiff.Beside) (raster.Source, error) {
	var err error
	if o.far, err = ranged.Open(ctx, o.bucket, o.name, s.ranges()); err != nil {
		return nil, err
	}
	var head [6]byte
	if n, err := o.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.label, err), o.Close())
	} else if string(head[:n]) == "\x93NUMPY" {
		f, err := npy.OpenAt(o, o.far.Size(), o.label)
		if err != nil {
			return nil, err
		}
		return array{f, o}, nil
	}
	f, err := geotiff.OpenAt(o, o.far.Size(), o.label, beside)
	if err != nil {
		return nil, err
	}
	return tiff{f, o}, nil
}

// sidecars looks for what lies beside a file, for all of it at once.
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

// siblingOf is the name of what lies beside an object.
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
		if errors.Is(c.err, fs.ErrPermission) { // so say stores about what is not there to those who may not list
			s.o.s.warnRefused(c.err)
			c.err = fs.ErrNotExist
		}
	}()
	return c
}

// plausible tells whether an answer can be what was asked for: some servers answer with a page of text whatever is asked.
func plausible(r *ranged.Reader, suffix string) bool {
	head := make([]byte, min(r.Size(), 1024))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return true // an error to be told
	}
	page := bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(head)), []byte("<!doctype")) || bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(head)), []byte("<html"))
	return !page
}

// open implements geotiff.Beside.
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
	s.o.beside = append(s.o.beside, suffix)
	if suffix == ".msk" || suffix == ".aux.xml" {
		s.o.versions[suffix] = c.r.Info()
	}
	if i := c.r.Info(); i.Size > headBytes && (i.Whole || !i.Versioned()) {
		w := &whole{s: s.o.s, ctx: s.ctx, bucket: s.o.bucket, name: siblingOf(s.o.name, suffix, instead), label: name, far: c.r}
		return w, i.Size, name, nil
	}
	return c.r, c.r.Size(), name, nil
}

// close closes what was looked for in vain.
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
