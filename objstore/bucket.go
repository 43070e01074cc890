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

	"leat/internal/storeurl"
)

// Options configure access to stores. nil means the defaults of the provider's own tools.
type Options struct {
	Endpoint  string       // URL of a server that speaks a provider's protocol, instead of the provider's own
	Region    string       // s3 only
	Anonymous bool         // use no credentials
	Retry     Retry        // for Upload and List; other methods of a Bucket make one attempt
	Client    *http.Client // sends the requests; nil: a client without an overall timeout
	Drivers   map[string]Opener
}

// Opener opens a bucket of one scheme by its URL, which has no path.
type Opener func(ctx context.Context, bucketURL *url.URL, o *Options) (Source, error)

// Bucket gives access by name to the objects of a bucket, a host or a directory. It is a Source and
// safe for concurrent use.
type Bucket struct {
	src    Source
	prefix string
	retry  Retry
	pace   *pace // shared by all requests
}

// Open opens a bucket by its URL: http://HOST, https://HOST, file:///DIRECTORY, and the schemes of
// Options.Drivers, such as s3://BUCKET. A path after the bucket is a prefix of all names. Open also
// opens a directory by its path. It sends no request to the bucket. The caller closes the Bucket.
func Open(ctx context.Context, bucketURL string, o *Options) (*Bucket, error) {
	if o == nil {
		o = &Options{}
	}
	if !storeurl.Is(bucketURL) {
		return newBucket(openFiles(bucketURL))
	}
	scheme, rest, _ := strings.Cut(bucketURL, "://")
	scheme = strings.ToLower(scheme)
	if scheme == "file" {
		dir, err := filePath(bucketURL)
		if err != nil {
			return nil, err
		}
		return newBucket(openFiles(dir))
	}
	// The prefix is used as it is written, without unescaping.
	host, prefix, _ := strings.Cut(rest, "/")
	u, err := parse(scheme + "://" + host)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(host, "?#") {
		return nil, fmt.Errorf("%s: the URL of a bucket has a query, expected none", storeurl.Redact(bucketURL))
	}
	var b *Bucket
	switch open := o.Drivers[scheme]; {
	case scheme == "http" || scheme == "https":
		if strings.ContainsAny(prefix, "?#") {
			return nil, fmt.Errorf("%s: the URL of a bucket has a query, expected it with each object's name", storeurl.Redact(bucketURL))
		}
		b, err = newBucket(openHTTP(u, o))
	case open == nil:
		known := []string{"file", "http", "https"}
		for s := range o.Drivers {
			known = append(known, s)
		}
		slices.Sort(known)
		return nil, fmt.Errorf("%s: there is no store called %q, expected %s",
			storeurl.Redact(bucketURL), scheme, list(known))
	case u.User != nil:
		return nil, fmt.Errorf("%s: the URL of a bucket has credentials, expected %s://BUCKET/NAME",
			storeurl.Redact(bucketURL), scheme)
	default:
		b, err = newBucket(open(ctx, u, o))
	}
	if err != nil {
		return nil, err
	}
	b.prefix, b.retry = withSlash(prefix), o.Retry
	return b, nil
}

func newBucket[S Source](src S, err error) (*Bucket, error) {
	if err != nil {
		return nil, err
	}
	return &Bucket{src: src, pace: newPace()}, nil
}

// sharedPace returns the pace for paceOf, also through a type that embeds a Bucket.
func (b *Bucket) sharedPace() *pace { return b.pace }

func withSlash(prefix string) string {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return prefix
	}
	return prefix + "/"
}

// ID implements Source.
func (b *Bucket) ID(name string) string { return b.src.ID(b.prefix + name) }

// Stat implements Source.
func (b *Bucket) Stat(ctx context.Context, name string) (Info, error) {
	i, err := b.src.Stat(ctx, b.prefix+name)
	i.Name = name
	return i, err
}

// Read implements Source.
func (b *Bucket) Read(ctx context.Context, name string, offset, length int64, match *Info) (Info, io.ReadCloser,
	error) {
	i, body, err := b.src.Read(ctx, b.prefix+name, offset, length, match)
	i.Name = name
	return i, body, err
}

// List implements Lister. The error is errors.ErrUnsupported if the store can't list its objects.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	l, ok := b.src.(Lister)
	if !ok {
		return func(yield func(Info, error) bool) {
			yield(Info{}, &Error{Op: "listing", URL: b.ID(prefix),
				Err: fmt.Errorf("the server can't list its objects: %w",
					errors.ErrUnsupported)})
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

// Upload implements Uploader. The error is errors.ErrUnsupported if the store can't be written to.
// With IfAbsent, Upload looks the name up first, and fails if it can't do so.
func (b *Bucket) Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o UploadOptions) error {
	u, ok := b.src.(Uploader)
	if !ok {
		return &Error{Op: "writing", URL: b.ID(name),
			Err: fmt.Errorf("the store can't be written to: %w", errors.ErrUnsupported)}
	}
	if o.IfAbsent { // some servers ignore the condition, and others check it only after the last part
		switch _, err := b.retry.Stat(ctx, b, name); {
		case err == nil:
			return &Error{Op: "writing", URL: storeurl.Redact(b.ID(name)), Err: fs.ErrExist}
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return u.Upload(ctx, b.prefix+name, r, size, o)
}

// CanUpload reports whether the bucket's kind of store can be written to. It does not check access.
func (b *Bucket) CanUpload() bool {
	_, ok := b.src.(Uploader)
	return ok
}

// Close releases the bucket's connections.
func (b *Bucket) Close() error {
	if c, ok := b.src.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// SameVersion reports whether two Infos may describe one version of an object. It compares sizes
// and entity tags, or else modification times. A missing value equals any other.
func SameVersion(a, b Info) bool {
	if a.Size >= 0 && b.Size >= 0 && a.Size != b.Size {
		return false
	}
	if a.ETag != "" && b.ETag != "" {
		return a.ETag == b.ETag
	}
	return a.ModTime.IsZero() || b.ModTime.IsZero() || a.ModTime.Equal(b.ModTime)
}

func changed(want *Info, have Info) bool { return want != nil && !SameVersion(*want, have) }

func list(words []string) string {
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
