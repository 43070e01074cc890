// Package cloud has the drivers of objstore for the stores of providers: s3 and what speaks its protocol, gs, azblob; and mem, which is for tests. They stand on gocloud.dev/blob, and find
// credentials where each provider's own tools find them.
//
// A program that reads only files and http does without this package, which is large.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"leat/objstore"
)

// Drivers are the drivers by scheme, for objstore.Options.Drivers.
func Drivers() map[string]objstore.Opener {
	return map[string]objstore.Opener{"s3": openS3, "gs": openGS, "azblob": openAzure, "mem": openMem}
}

// bucket is a Source over a bucket of gocloud.
type bucket struct {
	read, write *blob.Bucket
	name        string // its URL, without a slash at the end
	note        string // what tells this bucket from one of the same name elsewhere
	provider    provider
	closers     []func() error
}

// provider is what differs between the stores, where gocloud does not tell it.
type provider interface {
	// before sets what a request of one version needs.
	before(match *objstore.Info, as func(any) bool)
	// version tells what an answer says beyond size and time.
	version(r *blob.Reader, i *objstore.Info)
	// attributes does so for what was asked without reading.
	attributes(a *blob.Attributes, i *objstore.Info)
	// refused is the answer's status in an error, and the store's word for it.
	refused(err error) (status int, code string, header http.Header)
	// hidden tells whether gocloud has another name for an object of this name.
	hidden(name string) bool
}

func (b *bucket) ID(name string) string {
	id := objstore.Redact(b.name + "/" + name)
	if b.note != "" {
		id += "#" + b.note
	}
	return id
}

func (b *bucket) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	e := &objstore.Error{Op: op, URL: b.ID(name)}
	var header http.Header
	if e.Status, e.Code, header = b.provider.refused(err); e.Status != 0 {
		e.RetryAfter = objstore.ParseRetryAfter(header.Get("Retry-After"))
		return e
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		e.Status = http.StatusNotFound
		return e
	case gcerrors.PermissionDenied:
		e.Status = http.StatusForbidden
		return e
	}
	if text := err.Error(); strings.Contains(text, "failed to refresh cached credentials") || strings.Contains(text, "get credentials") ||
		strings.Contains(text, "could not find default credentials") || strings.Contains(text, "DefaultAzureCredential") {
		e.Err = errors.New("no credentials were found: set them as the provider's own command does, or give --anonymous for public data")
		return e
	}
	var ue *url.Error
	if errors.As(err, &ue) { // it quotes the URL, which may be signed
		err = ue.Err
	}
	e.Err = err
	return e
}

func (b *bucket) check(op, name string) error {
	if b.provider.hidden(name) {
		return &objstore.Error{Op: op, URL: b.ID(name), Err: errors.New("its name has characters that can't be asked for here: rename the object")}
	}
	return nil
}

func (b *bucket) Stat(ctx context.Context, name string) (objstore.Info, error) {
	if err := b.check("looking up", name); err != nil {
		return objstore.Info{}, err
	}
	a, err := b.read.Attributes(ctx, name)
	if err != nil {
		return objstore.Info{}, b.fail("looking up", name, err)
	}
	i := objstore.Info{Name: name, Size: a.Size, ModTime: a.ModTime}
	b.provider.attributes(a, &i)
	return i, nil
}

func (b *bucket) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info, io.ReadCloser, error) {
	if err := b.check("reading", name); err != nil {
		return objstore.Info{}, nil, err
	}
	r, err := b.read.NewRangeReader(ctx, name, offset, length, &blob.ReaderOptions{BeforeRead: func(as func(any) bool) error {
		b.provider.before(match, as)
		return nil
	}})
	if err != nil {
		err = b.fail("reading", name, err)
		var e *objstore.Error
		if errors.As(err, &e) && (e.Status == http.StatusRequestedRangeNotSatisfiable || e.Status == 0 && e.Err != nil && gcerrors.Code(e.Err) == gcerrors.InvalidArgument) {
			// Of an empty object, or behind the end.
			if i, serr := b.Stat(ctx, name); serr == nil && offset >= i.Size {
				if match != nil && !objstore.Same(*match, i) {
					return i, nil, &objstore.Error{Op: "reading", URL: b.ID(name), Err: objstore.ErrChanged}
				}
				return i, io.NopCloser(strings.NewReader("")), nil
			}
		}
		return objstore.Info{}, nil, err
	}
	i := objstore.Info{Name: name, Size: r.Size(), ModTime: r.ModTime()}
	b.provider.version(r, &i)
	if match != nil && !objstore.Same(*match, i) {
		r.Close()
		return i, nil, &objstore.Error{Op: "reading", URL: b.ID(name), Err: objstore.ErrChanged}
	}
	left := max(0, i.Size-offset)
	if length >= 0 {
		left = min(left, length)
	}
	return i, &body{b: b, name: name, r: r, left: left}, nil
}

// body is what is read of an object; less than was announced is an error.
type body struct {
	b    *bucket
	name string
	r    *blob.Reader
	left int64
}

func (d *body) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.left -= int64(n)
	switch {
	case err == io.EOF && d.left > 0:
		return n, io.ErrUnexpectedEOF
	case err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return n, err
	}
	return n, d.b.fail("reading", d.name, err)
}

func (d *body) Close() error { return d.r.Close() }

func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		it := b.read.List(&blob.ListOptions{Prefix: prefix})
		for {
			o, err := it.Next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(objstore.Info{}, b.fail("listing", prefix, err))
				return
			}
			if o.IsDir {
				continue
			}
			if !yield(objstore.Info{Name: o.Key, Size: o.Size, ModTime: o.ModTime}, nil) {
				return
			}
		}
	}
}

// parts that an object may have, at most 10000 at S3: how large each must be at least.
func partSize(size int64) int { return int(max(8<<20, size/9000)) }

func (b *bucket) Upload(ctx context.Context, name string, r io.ReaderAt, size int64) error {
	if err := b.check("writing", name); err != nil {
		return err
	}
	// Without an end of ctx a Writer that is closed early would publish half an object.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.write.NewWriter(ctx, name, &blob.WriterOptions{BufferSize: partSize(size), ContentType: "application/octet-stream"})
	if err != nil {
		return b.fail("writing", name, err)
	}
	n, err := io.Copy(w, io.NewSectionReader(r, 0, size))
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes of %d could be read (%w)", n, size, io.ErrUnexpectedEOF)
	}
	if err != nil {
		cancel()
		_ = w.Close()
		return b.fail("writing", name, err)
	}
	return b.fail("writing", name, w.Close())
}

func (b *bucket) Close() error {
	errs := []error{b.read.Close()}
	if b.write != b.read {
		errs = append(errs, b.write.Close())
	}
	for _, c := range b.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// control tells whether a name has characters below space.
func control(name string) bool {
	return strings.ContainsFunc(name, func(r rune) bool { return r < 32 })
}
