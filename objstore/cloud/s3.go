//go:build !nocloud

package cloud

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"leat/internal/storeurl"
	"leat/objstore"
	"leat/objstore/internal/transport"
)

// openS3 opens s3://BUCKET. Credentials are found as by the aws command: environment, shared files,
// single sign-on, web identity, the role of a container or a machine.
func openS3(ctx context.Context, u *url.URL, o *objstore.Options) (objstore.Source, error) {
	b := &bucket{name: "s3://" + u.Host, provider: s3Provider{}, retry: o.Retry}
	// The client's log repeats its errors.
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Anonymous {
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, &objstore.Error{Op: "opening", URL: b.name, Err: err}
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // as the aws command does
	}
	cfg.HTTPClient, b.idle = s3Client(cfg.HTTPClient, o)
	server := o.Endpoint
	if server == "" { // from the environment or a shared file
		server = aws.ToString(s3.NewFromConfig(cfg).Options().BaseEndpoint)
	}
	if server != "" {
		if b.endpoint, err = endpoint(server); err != nil {
			return nil, err
		}
		// Servers other than Amazon's lack the newer checksums and, often, buckets as host names.
		cfg.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		cfg.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	open := func(region string) (c clients, err error) {
		client := func(r aws.Retryer) *s3.Client {
			return s3.NewFromConfig(cfg, func(so *s3.Options) {
				so.Region, so.Retryer = region, r
				so.APIOptions = append(so.APIOptions, realNames)
				if server != "" {
					so.BaseEndpoint, so.UsePathStyle = aws.String(server), true
				}
			})
		}
		bo := &s3blob.Options{RequestChecksumCalculation: cfg.RequestChecksumCalculation}
		c.region = region
		if c.read, err = s3blob.OpenBucket(ctx, client(onceMore()), u.Host, bo); err != nil {
			return c, &objstore.Error{Op: "opening", URL: b.name, Err: err}
		}
		if c.write, err = s3blob.OpenBucket(ctx, client(repeatedly(o.Retry)), u.Host, bo); err != nil {
			return c, errors.Join(&objstore.Error{Op: "opening", URL: b.name, Err: err}, c.read.Close())
		}
		return c, nil
	}
	if b.now, err = open(cfg.Region); err != nil {
		return nil, err
	}
	if server == "" {
		b.reopen = open
	}
	return b, nil
}

// s3Client returns the HTTP client of a bucket, with what the configuration sets, such as a bundle
// of certificates, and a function that closes its idle connections.
func s3Client(configured aws.HTTPClient, o *objstore.Options) (aws.HTTPClient, func()) {
	built, ok := configured.(*awshttp.BuildableClient)
	if o.Client != nil || !ok {
		c, idle := client(o)
		return c, idle
	}
	t := built.GetTransport()
	transport.Configure(t)
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.ResponseHeaderTimeout = 256, 128, answerWithin
	c := &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if s := req.Response.StatusCode; len(via) >= 10 || s != http.StatusTemporaryRedirect &&
			s != http.StatusPermanentRedirect {
			return http.ErrUseLastResponse // its header names the region
		}
		return nil
	}}
	return c, c.CloseIdleConnections
}

// onceMore allows one attempt, since objstore.Retry makes the others. It allows a second one if the
// first failed because the clocks differ: the client learns the difference from the response.
func onceMore() aws.Retryer {
	return retry.NewStandard(func(so *retry.StandardOptions) {
		so.MaxAttempts = 2
		so.Retryables = []retry.IsErrorRetryable{
			retry.RetryableErrorCode{Codes: map[string]struct{}{"RequestTimeTooSkewed": {}, "RequestExpired": {},
				"RequestInTheFuture": {}}},
			retry.IsErrorRetryableFunc(func(err error) aws.Ternary { // the response to a HEAD has no error code
				r := s3Provider{}.refused(err)
				return aws.BoolTernary(r.status == http.StatusForbidden && clockOff(r.header) != 0)
			}),
		}
		so.RateLimiter = ratelimit.None
		so.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
}

// clockOff returns how far this machine's clock is behind the server's; 0 if the difference is too
// small for a signature to be refused.
func clockOff(answer http.Header) time.Duration {
	t, err := http.ParseTime(answer.Get("Date"))
	if off := time.Until(t); err == nil && off.Abs() > 4*time.Minute {
		return off.Round(time.Minute)
	}
	return 0
}

func repeatedly(r objstore.Retry) aws.Retryer {
	return retry.NewStandard(func(so *retry.StandardOptions) {
		so.MaxAttempts = 5
		if r.MaxAttempts > 0 {
			so.MaxAttempts = r.MaxAttempts
		}
		if r.MaxPause > 0 {
			so.MaxBackoff = r.MaxPause
		}
		so.RateLimiter = ratelimit.None
	})
}

// realNames makes the client request the objects' real names and versions.
func realNames(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("leatNames",
		func(ctx context.Context, in middleware.InitializeInput,
			next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			var name, version **string
			switch p := in.Parameters.(type) {
			case *s3.GetObjectInput:
				name, version = &p.Key, &p.VersionId
			case *s3.HeadObjectInput:
				name, version = &p.Key, &p.VersionId
			case *s3.PutObjectInput:
				name = &p.Key
			case *s3.CreateMultipartUploadInput:
				name = &p.Key
			case *s3.UploadPartInput:
				name = &p.Key
			case *s3.CompleteMultipartUploadInput:
				name = &p.Key
			case *s3.AbortMultipartUploadInput:
				name = &p.Key
			case *s3.ListObjectsV2Input:
				name = &p.Prefix
			}
			if name != nil && *name != nil {
				*name = aws.String(unescape(**name))
			}
			if version != nil && *name != nil {
				if key, v, ok := storeurl.CutVersion(**name); ok {
					*name, *version = aws.String(key), aws.String(v)
				}
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
}

type s3Provider struct{}

func (s3Provider) before(match *objstore.Info, as func(any) bool) {
	var in *s3.GetObjectInput
	switch {
	case match == nil || !as(&in):
	case match.ETag != "":
		in.IfMatch = aws.String(`"` + match.ETag + `"`)
	case !match.ModTime.IsZero():
		in.IfUnmodifiedSince = aws.Time(match.ModTime)
	}
}

func (s3Provider) version(r *blob.Reader, i *objstore.Info) {
	var out s3.GetObjectOutput
	if r.As(&out) {
		i.ETag = unquote(aws.ToString(out.ETag))
		if out.ContentRange == nil && out.ChecksumType == types.ChecksumTypeFullObject {
			i.CRC32C = decode(aws.ToString(out.ChecksumCRC32C), 4)
		}
	}
}

func (s3Provider) attributes(a *blob.Attributes, i *objstore.Info) { i.ETag = unquote(a.ETag) }

func (s3Provider) listed(o *blob.ListObject, i *objstore.Info) {
	var obj types.Object
	if o.As(&obj) {
		i.Name, i.ETag = aws.ToString(obj.Key), unquote(aws.ToString(obj.ETag))
	}
}

func (s3Provider) refused(err error) (r refusal) {
	var api smithy.APIError
	if errors.As(err, &api) {
		r.code = api.ErrorCode()
	}
	var re *awshttp.ResponseError
	if errors.As(err, &re) && re.Response != nil {
		r.status, r.header = re.HTTPStatusCode(), re.Response.Header
	}
	if region := r.header.Get("X-Amz-Bucket-Region"); region != "" && r.status == http.StatusMovedPermanently {
		r.detail = fmt.Sprintf("the bucket is in the region %q", region)
	}
	if r.status == http.StatusForbidden {
		switch off := clockOff(r.header); {
		case off > 0:
			r.detail = fmt.Sprintf("this machine's clock is %v behind the store's", off)
		case off < 0:
			r.detail = fmt.Sprintf("this machine's clock is %v ahead of the store's", -off)
		}
	}
	return r
}

func (s3Provider) hidden(string) bool { return false }

// unquote returns an entity tag without its quotes, and "" for a weak one.
func unquote(tag string) string {
	if len(tag) > 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
		return tag[1 : len(tag)-1]
	}
	return ""
}

func decode(sum string, n int) []byte {
	b, err := base64.StdEncoding.DecodeString(sum)
	if err != nil || len(b) != n {
		return nil
	}
	return b
}
