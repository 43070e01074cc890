//go:build !nocloud

package cloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"leat/internal/storeurl"
	"leat/objstore"
	"leat/objstore/internal/transport"
)

// bucket is a Source that reads from a gocloud bucket.
type bucket struct {
	name string // its URL, without a trailing slash
	// endpoint is the server's URL, which distinguishes buckets of equal names; "": the provider's
	// own server.
	endpoint string
	provider provider
	retry    objstore.Retry
	idle     func() // closes idle connections
	reopen   func(region string) (clients, error)

	mu  sync.Mutex
	now clients
}

// clients holds two clients of the same bucket. objstore.Retry repeats and resumes reads; the
// provider's client itself repeats writes, part by part.
type clients struct {
	read, write *blob.Bucket
	region      string
}

// provider is what differs between the stores and gocloud does not unify.
type provider interface {
	// before adds the condition to a request that only the version match may answer.
	before(match *objstore.Info, as func(any) bool)
	// version adds to i what a response contains besides size and time.
	version(r *blob.Reader, i *objstore.Info)
	// attributes does the same for a request without a body.
	attributes(a *blob.Attributes, i *objstore.Info)
	// listed does the same for an entry of a list, and sets the object's real name.
	listed(o *blob.ListObject, i *objstore.Info)
	// refused returns the response's status in an error, the store's error code, and details.
	refused(err error) refusal
	// hidden reports whether gocloud requests another name instead of this one.
	hidden(name string) bool
}

type refusal struct {
	status       int
	code, detail string
	header       http.Header
}

// ID returns a permanent name of an object. It escapes characters with a meaning in URLs, and has
// no secrets even if name ends with the parameters of a signed URL.
func (b *bucket) ID(name string) string {
	id := b.name + "/" + name
	mark := "?"
	if key, version, ok := b.cutVersion(name); storeurl.Redact(id) == id && ok {
		id, mark = b.name+"/"+escapes.Replace(key)+storeurl.VersionMark+escapes.Replace(version), "&"
	} else if r := storeurl.Redact(id); r != id {
		id = fmt.Sprintf("%s~%.8x", r, sha256.Sum256([]byte(name)))
	} else {
		id = b.name + "/" + escapes.Replace(name)
	}
	if b.endpoint != "" {
		id += mark + "endpoint=" + b.endpoint
	}
	return id
}

// cutVersion is storeurl.CutVersion for s3; other stores have no versions in names.
func (b *bucket) cutVersion(name string) (key, version string, ok bool) {
	if _, s3 := b.provider.(s3Provider); !s3 {
		return name, "", false
	}
	return storeurl.CutVersion(name)
}

var escapes = strings.NewReplacer("%", "%25", "?", "%3F", "\n", "%0A", "\r", "%0D")

// seconds truncates a time to whole seconds, the precision that all responses of a store share.
func (b *bucket) seconds(t time.Time) time.Time {
	if _, ok := b.provider.(memProvider); ok {
		return t
	}
	return t.Truncate(time.Second)
}

// weaken marks a version without an entity tag as ambiguous: its time has whole seconds, and the
// response's date is unknown here.
func (b *bucket) weaken(i *objstore.Info) {
	if _, ok := b.provider.(memProvider); !ok {
		i.AmbiguousVersion = i.ETag == ""
	}
}

func (b *bucket) clients() clients {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// do makes one attempt, and a second one if the store says that the bucket is in another region.
func (b *bucket) do(ctx context.Context, attempt func(c clients) error) (err error) {
	defer func() {
		// The libraries panic if a response lacks a required field.
		if r := recover(); r != nil {
			if _, ok := r.(runtime.Error); !ok {
				panic(r)
			}
			err = objstore.ErrProtocol
		}
	}()
	c := b.clients()
	err = attempt(c)
	if err != nil && b.idle != nil && errors.Is(context.Cause(ctx), objstore.ErrStalled) {
		b.idle()
	}
	if err == nil || b.reopen == nil {
		return err
	}
	region := b.provider.refused(err).header.Get("X-Amz-Bucket-Region")
	if region == "" || region == c.region {
		return err
	}
	b.mu.Lock()
	if b.now.region == c.region {
		next, oerr := b.reopen(region)
		if oerr != nil {
			b.mu.Unlock()
			return errors.Join(err, oerr)
		}
		b.now = next
	}
	c = b.now
	b.mu.Unlock()
	return attempt(c)
}

func (b *bucket) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	e := &objstore.Error{Op: op, URL: storeurl.Redact(b.name + "/" + name)}
	if r := b.provider.refused(err); r.status != 0 {
		e.Status, e.Code = r.status, r.code
		e.RetryAfter = transport.ParseRetryAfter(r.header.Get("Retry-After"))
		if r.detail != "" {
			e.Err = errors.New(r.detail)
		}
		return e
	}
	if gcerrors.Code(err) == gcerrors.NotFound {
		var dns *net.DNSError
		if !errors.As(err, &dns) {
			e.Status = http.StatusNotFound
			return e
		}
	}
	text := err.Error()
	for _, none := range []string{"failed to refresh cached credentials", "get credentials",
		"could not find default credentials", "DefaultAzureCredential"} {
		if strings.Contains(text, none) {
			e.Err = objstore.ErrNoCredentials
			return e
		}
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	e.Err = err
	return e
}

func (b *bucket) check(op, name string) error {
	switch {
	case name == "":
		return &objstore.Error{Op: op, URL: b.name, Err: errors.New("the object's name is missing, expected " + b.name + "/NAME")}
	case !utf8.ValidString(name) || b.provider.hidden(name):
		return &objstore.Error{Op: op, URL: storeurl.Redact(b.name + "/" + name),
			Err: errors.New("the client library can't request a name with these characters")}
	}
	return nil
}

func (b *bucket) Stat(ctx context.Context, name string) (objstore.Info, error) {
	if err := b.check("looking up", name); err != nil {
		return objstore.Info{}, err
	}
	i := objstore.Info{Name: name}
	err := b.do(ctx, func(c clients) error {
		a, err := c.read.Attributes(ctx, name)
		if err == nil {
			i.Size, i.ModTime = a.Size, b.seconds(a.ModTime)
			b.provider.attributes(a, &i)
			b.weaken(&i)
		}
		return err
	})
	return i, b.fail("looking up", name, err)
}

func (b *bucket) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	if err := b.check("reading", name); err != nil {
		return objstore.Info{}, nil, err
	}
	if offset < 0 {
		return objstore.Info{}, nil, fmt.Errorf("reading %s: the offset is %d, expected 0 or more", b.ID(name), offset)
	}
	if length > math.MaxInt64-offset {
		length = -1
	}
	i := objstore.Info{Name: name}
	var r *blob.Reader
	err := b.do(ctx, func(c clients) (err error) {
		if r, err = c.read.NewRangeReader(ctx, name, offset, length,
			&blob.ReaderOptions{BeforeRead: func(as func(any) bool) error {
				b.provider.before(match, as)
				return nil
			}}); err == nil {
			i.Size, i.ModTime = r.Size(), b.seconds(r.ModTime())
			b.provider.version(r, &i)
			b.weaken(&i)
		}
		return err
	})
	if err != nil {
		status := b.provider.refused(err).status
		err = b.fail("reading", name, err)
		// The object is empty, or the range begins at or past its end. A length of 0 is sent as one
		// byte.
		if status == http.StatusRequestedRangeNotSatisfiable {
			if i, serr := b.Stat(ctx, name); serr == nil && offset >= i.Size {
				if match != nil && !objstore.SameVersion(*match, i) {
					return i, nil, &objstore.Error{Op: "reading", URL: storeurl.Redact(b.name + "/" + name),
						Err: objstore.ErrChanged}
				}
				return i, io.NopCloser(strings.NewReader("")), nil
			}
		}
		return objstore.Info{}, nil, err
	}
	if match != nil && !objstore.SameVersion(*match, i) {
		r.Close()
		return i, nil, &objstore.Error{Op: "reading", URL: storeurl.Redact(b.name + "/" + name),
			Err: objstore.ErrChanged}
	}
	left := max(0, i.Size-offset)
	if length >= 0 {
		left = min(left, length)
	}
	return i, &body{b: b, name: name, r: r, left: left}, nil
}

// body is the body of an object. It ends with io.ErrUnexpectedEOF if fewer bytes arrive than
// announced.
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
		for token := blob.FirstPageToken; len(token) > 0; {
			var page []*blob.ListObject
			var next []byte
			err := b.retry.Do(ctx, func(ctx context.Context) error {
				return b.fail("listing", prefix, b.do(ctx, func(c clients) (err error) {
					page, next, err = c.read.ListPage(ctx, token, 1000, &blob.ListOptions{Prefix: prefix})
					return err
				}))
			})
			if err == nil && bytes.Equal(token, next) {
				err = &objstore.Error{Op: "listing", URL: storeurl.Redact(b.name + "/" + prefix),
					Err: errors.New("the server sent the same page twice")}
			}
			if err != nil {
				yield(objstore.Info{}, err)
				return
			}
			token = next
			for _, o := range page {
				i := objstore.Info{Name: o.Key, Size: o.Size, ModTime: b.seconds(o.ModTime)}
				b.provider.listed(o, &i)
				b.weaken(&i)
				if !o.IsDir && !yield(i, nil) {
					return
				}
			}
		}
	}
}

// partSize returns the size of an upload's parts: at least 8 MiB, and enough for about 9000 parts
// (S3 allows 10000).
func partSize(size int64) int { return int(max(8<<20, size/9000)) }

func (b *bucket) Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o objstore.UploadOptions) error {
	if err := b.check("writing", name); err != nil {
		return err
	}
	if _, _, ok := b.cutVersion(name); ok {
		return &objstore.Error{Op: "writing", URL: b.name + "/" + name,
			Err: errors.New("an object version can't be written, expected a name without " + storeurl.VersionMark)}
	}
	err := b.do(ctx, func(c clients) error { return upload(ctx, c.write, name, r, size, o) })
	if o.IfAbsent && gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return &objstore.Error{Op: "writing", URL: storeurl.Redact(b.name + "/" + name), Err: fs.ErrExist}
	}
	return b.fail("writing", name, err)
}

func upload(ctx context.Context, to *blob.Bucket, name string, r io.ReaderAt, size int64,
	o objstore.UploadOptions) error {
	// gocloud publishes what it could read unless ctx is cancelled.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := &exactly{r: io.NewSectionReader(r, 0, size), left: size, fail: cancel}
	err := to.Upload(ctx, name, all, &blob.WriterOptions{BufferSize: partSize(size),
		ContentType: "application/octet-stream", IfNotExist: o.IfAbsent})
	if all.err != nil {
		return all.err
	}
	return err
}

// exactly reads left bytes. It calls fail if there are fewer, or after a read error.
type exactly struct {
	r    io.Reader
	left int64
	fail func()
	err  error
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.left -= int64(n); err == io.EOF && e.left > 0 {
		err = fmt.Errorf("%d bytes are missing at the end of the data (%w)", e.left, io.ErrUnexpectedEOF)
	}
	if err != nil && err != io.EOF {
		e.err = err
		e.fail()
	}
	return n, err
}

func (b *bucket) Close() error {
	c := b.clients()
	err := c.read.Close()
	if c.write != c.read {
		err = errors.Join(err, c.write.Close())
	}
	if b.idle != nil {
		b.idle()
	}
	return err
}
