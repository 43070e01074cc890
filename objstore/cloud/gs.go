//go:build !nocloud

package cloud

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"leat/objstore"
)

// openGS opens gs://BUCKET with the application default credentials, which gcloud and other tools
// use.
func openGS(ctx context.Context, u *url.URL, o *objstore.Options) (objstore.Source, error) {
	b := &bucket{name: "gs://" + u.Host, provider: gsProvider{}, retry: o.Retry}
	var hc *http.Client
	hc, b.idle = client(o)
	// hc has the credentials. Without this option, the client looks for others too, and asks a host
	// that only Google's machines have.
	opts := []option.ClientOption{option.WithoutAuthentication()}
	emulator := os.Getenv("STORAGE_EMULATOR_HOST")
	server := o.Endpoint
	switch {
	case server != "":
		opts = append(opts, option.WithEndpoint(strings.TrimRight(server, "/")+"/storage/v1/"))
	case emulator != "" && !strings.Contains(emulator, "://"):
		server = "http://" + emulator
	default:
		server = emulator
	}
	if server != "" {
		var err error
		if b.endpoint, err = endpoint(server); err != nil {
			return nil, err
		}
	}
	if !o.Anonymous && emulator == "" {
		creds, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, b.fail("opening", "", err)
		}
		with := *hc
		with.Transport = &oauth2.Transport{Base: hc.Transport, Source: creds.TokenSource}
		hc = &with
	}
	attempts := 5
	if o.Retry.MaxAttempts > 0 {
		attempts = o.Retry.MaxAttempts
	}
	open := func(policy storage.RetryPolicy) (*blob.Bucket, error) {
		c, err := storage.NewClient(ctx, append(opts, option.WithHTTPClient(hc))...)
		if err != nil {
			return nil, b.fail("opening", "", err)
		}
		c.SetRetry(storage.WithPolicy(policy), storage.WithMaxAttempts(attempts))
		return gcsblob.OpenBucket(ctx, nil, u.Host, &gcsblob.Options{Client: c})
	}
	var err error
	if b.now.read, err = open(storage.RetryNever); err != nil {
		return nil, err
	}
	if b.now.write, err = open(storage.RetryAlways); err != nil { // a repeated write has the same bytes
		return nil, err
	}
	return b, nil
}

type gsProvider struct{}

func (gsProvider) before(match *objstore.Info, as func(any) bool) {
	var obj **storage.ObjectHandle
	if !as(&obj) {
		return
	}
	*obj = (*obj).ReadCompressed(true) // the bytes as they are stored
	if match == nil {
		return
	}
	if g, err := strconv.ParseInt(match.ETag, 10, 64); err == nil {
		*obj = (*obj).If(storage.Conditions{GenerationMatch: g})
	}
}

func (gsProvider) version(r *blob.Reader, i *objstore.Info) {
	var sr *storage.Reader
	if r.As(&sr) && sr != nil {
		i.ETag = generation(sr.Attrs.Generation)
		i.CRC32C = crc32c(sr.Attrs.CRC32C)
	}
}

func (gsProvider) attributes(a *blob.Attributes, i *objstore.Info) {
	var oa storage.ObjectAttrs
	if a.As(&oa) {
		i.ETag = generation(oa.Generation)
		i.CRC32C = crc32c(oa.CRC32C)
		i.MD5 = oa.MD5
	}
}

func (gsProvider) listed(o *blob.ListObject, i *objstore.Info) {
	var oa storage.ObjectAttrs
	if o.As(&oa) {
		i.Name, i.ETag, i.MD5 = oa.Name, generation(oa.Generation), oa.MD5
		i.CRC32C = crc32c(oa.CRC32C)
	}
}

// generation formats the number that the store gives each version of an object.
func generation(g int64) string {
	if g == 0 {
		return ""
	}
	return strconv.FormatInt(g, 10)
}

// crc32c returns a checksum as bytes, or nil for 0, which means an empty object or no checksum.
func crc32c(sum uint32) []byte {
	if sum == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, sum)
}

func (gsProvider) refused(err error) (r refusal) {
	var ge *googleapi.Error
	switch {
	case errors.As(err, &ge):
		r.status, r.header = ge.Code, ge.Header
	case errors.Is(err, storage.ErrBucketNotExist):
		r.status, r.code = http.StatusNotFound, "NoSuchBucket"
	case errors.Is(err, storage.ErrObjectNotExist):
		r.status = http.StatusNotFound
	}
	return r
}

// hidden reports whether gocloud escapes the name, and so requests another one.
func (gsProvider) hidden(name string) bool {
	return strings.ContainsAny(name, "\n\r") || strings.Contains(name, "../") || escaped.MatchString(name)
}
