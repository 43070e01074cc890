package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Options say how stores are reached; nil: as the provider's own tools reach them.
type Options struct {
	Endpoint  string       // URL of a server that speaks a provider's protocol, in place of the provider's own
	Region    string       // of s3
	Anonymous bool         // no credentials are looked for
	Retry     Retry        // for Upload, List and what a Bucket does by several attempts
	Client    *http.Client // for http(s); nil: one without an overall time limit
	Drivers   map[string]Opener
}

// Opener opens a bucket of one scheme. What follows the bucket's name in the URL is not its matter.
type Opener func(ctx context.Context, bucketURL *url.URL, o *Options) (Source, error)

// Bucket is a place where objects have names: a bucket, a host, a folder. It is a Source. It may be used by many goroutines.
type Bucket struct {
	src    Source
	prefix string
	retry  Retry
}

// Open opens a bucket by its URL: http://HOST, https://HOST, file:///FOLDER, and what Options.Drivers has, such as s3://BUCKET. A path behind the bucket is put before all
// names. Nothing is asked of the store yet. The caller closes it.
func Open(ctx context.Context, bucketURL string, o *Options) (*Bucket, error) {
	if o == nil {
		o = &Options{}
	}
	if !IsURL(bucketURL) {
		return opened(openFiles(bucketURL))
	}
	scheme, rest, _ := strings.Cut(bucketURL, "://")
	scheme = strings.ToLower(scheme)
	if scheme == "file" {
		folder, err := filePath(bucketURL)
		if err != nil {
			return nil, err
		}
		return opened(openFiles(folder))
	}
	// What stands behind the bucket's name is taken as it is written.
	host, prefix, _ := strings.Cut(rest, "/")
	u, err := parse(scheme + "://" + host)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(host, "?#") {
		return nil, fmt.Errorf("objstore: %s: options stand in no URL of a bucket", Redact(bucketURL))
	}
	var b *Bucket
	switch open := o.Drivers[scheme]; {
	case scheme == "http" || scheme == "https":
		if strings.ContainsAny(prefix, "?#") {
			return nil, fmt.Errorf("objstore: %s: what follows the question mark is to be given with the name of each object", Redact(bucketURL))
		}
		b, err = opened(openHTTP(u, o))
	case open == nil:
		known := []string{"file", "http", "https"}
		for s := range o.Drivers {
			known = append(known, s)
		}
		slices.Sort(known)
		return nil, fmt.Errorf("objstore: %s: there is no store called %q; those that can be read are %s", Redact(bucketURL), scheme, list(known))
	case u.User != nil:
		return nil, fmt.Errorf("objstore: %s: credentials do not belong in the URL of a bucket: write %s://BUCKET/NAME", Redact(bucketURL), scheme)
	default:
		b, err = opened(open(ctx, u, o))
	}
	if err != nil {
		return nil, err
	}
	b.prefix, b.retry = folder(prefix), o.Retry
	return b, nil
}

func opened[S Source](src S, err error) (*Bucket, error) {
	if err != nil {
		return nil, err
	}
	return &Bucket{src: src}, nil
}

func folder(prefix string) string {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return prefix
	}
	return prefix + "/"
}

// ID is Source.ID.
func (b *Bucket) ID(name string) string { return b.src.ID(b.prefix + name) }

// Stat is Source.Stat.
func (b *Bucket) Stat(ctx context.Context, name string) (Info, error) {
	i, err := b.src.Stat(ctx, b.prefix+name)
	i.Name = name
	return i, err
}

// Read is Source.Read.
func (b *Bucket) Read(ctx context.Context, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error) {
	i, body, err := b.src.Read(ctx, b.prefix+name, offset, length, match)
	i.Name = name
	return i, body, err
}

// List is Lister.List; a store that can't tell what it has is errors.ErrUnsupported.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	l, ok := b.src.(Lister)
	if !ok {
		return func(yield func(Info, error) bool) {
			yield(Info{}, &Error{Op: "listing", URL: b.ID(prefix), Err: fmt.Errorf("such a server can't tell what it has: give a list of URLs (%w)", errors.ErrUnsupported)})
		}
	}
	return func(yield func(Info, error) bool) {
		for i, err := range l.List(ctx, b.prefix+prefix) {
			i.Name = strings.TrimPrefix(i.Name, b.prefix)
			if !yield(i, err) {
				return
			}
		}
	}
}

// Upload is Uploader.Upload; a store that takes no objects is errors.ErrUnsupported. With IfAbsent a store that does not tell what it has is an error too.
func (b *Bucket) Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o UploadOptions) error {
	u, ok := b.src.(Uploader)
	if !ok {
		return &Error{Op: "writing", URL: b.ID(name), Err: fmt.Errorf("nothing can be written there: give a bucket or a file (%w)", errors.ErrUnsupported)}
	}
	if o.IfAbsent { // not all servers obey the condition, and of a large object it is told at the end only
		switch _, err := b.retry.Stat(ctx, b, name); {
		case err == nil:
			return Exists(Redact(b.ID(name)))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return u.Upload(ctx, b.prefix+name, r, size, o)
}

// Exists is the error of a driver whose object is not written since there is one of its name.
func Exists(url string) error { return &Error{Op: "writing", URL: url, Err: fs.ErrExist} }

// CanUpload tells whether objects can be written to the bucket, as far as its kind goes.
func (b *Bucket) CanUpload() bool {
	_, ok := b.src.(Uploader)
	return ok
}

// Close ends the use of the bucket.
func (b *Bucket) Close() error {
	if c, ok := b.src.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Same reports whether two Infos may be of one version of an object, as far as both tell: their sizes, and their entity tags or else times of change.
func Same(a, b Info) bool {
	if a.Size >= 0 && b.Size >= 0 && a.Size != b.Size {
		return false
	}
	if a.ETag != "" && b.ETag != "" {
		return a.ETag == b.ETag
	}
	return a.ModTime.IsZero() || b.ModTime.IsZero() || a.ModTime.Equal(b.ModTime)
}

func changed(want *Info, have Info) bool { return want != nil && !Same(*want, have) }

func list(words []string) string {
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
