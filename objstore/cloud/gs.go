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
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"leat/objstore"
)

// openGS opens gs://BUCKET with the application's default credentials, as gcloud and other tools find them.
func openGS(ctx context.Context, u *url.URL, o *objstore.Options) (objstore.Source, error) {
	b := &bucket{name: "gs://" + u.Host, provider: gsProvider{}}
	fail := func(err error) error { return b.fail("opening", "", err) }
	var client *gcp.HTTPClient
	if o.Anonymous || os.Getenv("STORAGE_EMULATOR_HOST") != "" {
		client = gcp.NewAnonymousHTTPClient(gcp.DefaultTransport())
	} else {
		creds, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, fail(err)
		}
		if client, err = gcp.NewHTTPClient(gcp.DefaultTransport(), creds.TokenSource); err != nil {
			return nil, fail(err)
		}
	}
	opts := &gcsblob.Options{}
	if o.Endpoint != "" {
		opts.ClientOptions = append(opts.ClientOptions, option.WithEndpoint(o.Endpoint))
		b.note = "endpoint=" + hostOf(o.Endpoint)
	}
	var err error
	if b.read, err = gcsblob.OpenBucket(ctx, client, u.Host, opts); err != nil {
		return nil, fail(err)
	}
	b.write = b.read
	return b, nil
}

func hostOf(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		return strings.ToLower(u.Host)
	}
	return "other"
}

type gsProvider struct{}

func (gsProvider) before(match *objstore.Info, as func(any) bool) {
	var obj **storage.ObjectHandle
	if !as(&obj) {
		return
	}
	*obj = (*obj).Retryer(storage.WithPolicy(storage.RetryNever)).ReadCompressed(true) // the bytes as they are stored
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
		i.ETag = strconv.FormatInt(sr.Attrs.Generation, 10)
		if c := sr.Attrs.CRC32C; c != 0 {
			i.CRC32C = binary.BigEndian.AppendUint32(nil, c)
		}
	}
}

func (gsProvider) attributes(a *blob.Attributes, i *objstore.Info) {
	var oa storage.ObjectAttrs
	if a.As(&oa) {
		i.ETag = strconv.FormatInt(oa.Generation, 10)
		if oa.CRC32C != 0 {
			i.CRC32C = binary.BigEndian.AppendUint32(nil, oa.CRC32C)
		}
		i.MD5 = oa.MD5
	}
}

func (gsProvider) refused(err error) (int, string, http.Header) {
	var ge *googleapi.Error
	switch {
	case errors.As(err, &ge):
		return ge.Code, "", ge.Header
	case errors.Is(err, storage.ErrBucketNotExist):
		return http.StatusNotFound, "NoSuchBucket", nil
	case errors.Is(err, storage.ErrObjectNotExist):
		return http.StatusNotFound, "", nil
	}
	return 0, "", nil
}

func (gsProvider) hidden(name string) bool {
	return strings.ContainsAny(name, "\n\r") || strings.Contains(name, "../")
}
