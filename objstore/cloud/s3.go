package cloud

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"leat/objstore"
)

// openS3 opens s3://BUCKET. Credentials come from the environment, the shared files, single sign-on, a web identity, a container's or a machine's role, as for the aws command.
func openS3(ctx context.Context, u *url.URL, o *objstore.Options) (objstore.Source, error) {
	if u.User != nil || u.RawQuery != "" && u.Path == "" {
		return nil, fmt.Errorf("objstore: %s: credentials and options do not belong in an s3 URL: write s3://BUCKET/NAME", objstore.Redact(u.String()))
	}
	// What the client has to say comes with its errors.
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Anonymous {
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, &objstore.Error{Op: "opening", URL: "s3://" + u.Host, Err: err}
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // as the aws command does
	}
	b := &bucket{name: "s3://" + u.Host, provider: s3Provider{}}
	endpoint := o.Endpoint
	if endpoint == "" && cfg.BaseEndpoint != nil {
		endpoint = *cfg.BaseEndpoint
	}
	if endpoint != "" {
		e, err := url.Parse(endpoint)
		if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
			return nil, fmt.Errorf("objstore: the endpoint %q is no URL of a server: write it as https://HOST:PORT", objstore.Redact(endpoint))
		}
		b.note = "endpoint=" + strings.ToLower(e.Host)
		// Other servers than Amazon's know neither the newer checksums nor, often, buckets as hosts.
		cfg.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		cfg.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	client := func(retryer func() aws.Retryer) *s3.Client {
		return s3.NewFromConfig(cfg, func(so *s3.Options) {
			if endpoint != "" {
				so.BaseEndpoint, so.UsePathStyle = aws.String(endpoint), true
			}
			if retryer != nil {
				so.Retryer = retryer()
			}
		})
	}
	// Reading is tried again by objstore.Retry, which resumes; writing by the client, part by part.
	if b.read, err = s3blob.OpenBucket(ctx, client(func() aws.Retryer { return aws.NopRetryer{} }), u.Host, nil); err != nil {
		return nil, &objstore.Error{Op: "opening", URL: b.name, Err: err}
	}
	if b.write, err = s3blob.OpenBucket(ctx, client(nil), u.Host, nil); err != nil {
		return nil, errors.Join(&objstore.Error{Op: "opening", URL: b.name, Err: err}, b.read.Close())
	}
	return b, nil
}

type s3Provider struct{}

func (s3Provider) before(match *objstore.Info, as func(any) bool) {
	var in *s3.GetObjectInput
	if match != nil && match.ETag != "" && as(&in) {
		in.IfMatch = aws.String(`"` + match.ETag + `"`)
	}
}

func (s3Provider) version(r *blob.Reader, i *objstore.Info) {
	var out s3.GetObjectOutput
	if r.As(&out) {
		i.ETag = unquote(aws.ToString(out.ETag))
		if out.ContentRange == nil && out.ChecksumType == types.ChecksumTypeFullObject {
			i.CRC32C, _ = base64.StdEncoding.DecodeString(aws.ToString(out.ChecksumCRC32C))
		}
	}
}

func (s3Provider) attributes(a *blob.Attributes, i *objstore.Info) {
	i.ETag = unquote(a.ETag)
}

func (s3Provider) refused(err error) (int, string, http.Header) {
	var code string
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var re *awshttp.ResponseError
	if errors.As(err, &re) && re.Response != nil {
		return re.HTTPStatusCode(), code, re.Response.Header
	}
	return 0, code, nil
}

func (s3Provider) hidden(name string) bool { return control(name) || strings.Contains(name, "../") }

// unquote is an entity tag without its quotes; a weak one is none.
func unquote(tag string) string {
	if strings.HasPrefix(tag, "W/") {
		return ""
	}
	return strings.Trim(tag, `"`)
}
