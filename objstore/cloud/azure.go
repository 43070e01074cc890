//go:build !nocloud

package cloud

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	azblobblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"

	"leat/objstore"
)

// openAzure opens azblob://CONTAINER of the account in AZURE_STORAGE_ACCOUNT. Credentials come from
// AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CONNECTION_STRING or the az command.
func openAzure(ctx context.Context, u *url.URL, o *objstore.Options) (objstore.Source, error) {
	b := &bucket{name: "azblob://" + u.Host, provider: azureProvider{}, retry: o.Retry}
	refuse := func(err error) (objstore.Source, error) {
		return nil, &objstore.Error{Op: "opening", URL: b.name, Err: err}
	}
	so := azureblob.NewDefaultServiceURLOptions()
	sas := so.SASToken
	so.SASToken = ""
	server := strings.TrimRight(o.Endpoint, "/")
	if server == "" {
		if so.AccountName == "" {
			return refuse(errors.New("no storage account: AZURE_STORAGE_ACCOUNT is not set"))
		}
		s, err := azureblob.NewServiceURL(so)
		if err != nil {
			return refuse(err)
		}
		server = string(s)
	}
	var err error
	if b.endpoint, err = endpoint(server); err != nil {
		return nil, err
	}
	var hc *http.Client
	hc, b.idle = client(o)
	open := func(attempts int32) (*blob.Bucket, error) {
		co := &container.ClientOptions{ClientOptions: policy.ClientOptions{
			Transport:       hc,
			Retry:           policy.RetryOptions{MaxRetries: attempts},
			PerCallPolicies: []policy.Policy{realBlobNames{}},
		}}
		c, err := azureClient(server+"/"+u.Host, so.AccountName, sas, u.Host, o, co)
		if err != nil {
			return nil, err
		}
		return azureblob.OpenBucket(ctx, c, nil)
	}
	more := int32(4)
	if o.Retry.MaxAttempts > 0 {
		more = int32(min(o.Retry.MaxAttempts, 100)) - 1
	}
	if more == 0 {
		more = -1 // none; 0 means the default, three
	}
	if b.now.read, err = open(-1); err != nil {
		return refuse(err)
	}
	if b.now.write, err = open(more); err != nil {
		return refuse(err)
	}
	return b, nil
}

// azureClient returns a client with the credentials of the environment, tried in gocloud's order.
func azureClient(containerURL, account, sas, name string, o *objstore.Options,
	co *container.ClientOptions) (*container.Client, error) {
	key := os.Getenv("AZURE_STORAGE_KEY")
	connection := os.Getenv("AZURE_STORAGE_CONNECTION_STRING")
	if connection == "" {
		connection = os.Getenv("AZURE_STORAGEBLOB_CONNECTIONSTRING")
	}
	switch {
	case o.Anonymous:
		return container.NewClientWithNoCredential(containerURL, co)
	case account != "" && key != "":
		cred, err := azblob.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_KEY is not valid base64") // the library's error may quote it
		}
		return container.NewClientWithSharedKeyCredential(containerURL, cred, co)
	case sas != "":
		return container.NewClientWithNoCredential(containerURL+"?"+strings.TrimPrefix(sas, "?"), co)
	case connection != "":
		c, err := container.NewClientFromConnectionString(connection, name, co)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_CONNECTION_STRING is not a valid connection string")
		}
		return c, nil
	}
	cred, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: co.Transport}})
	if err != nil {
		return nil, err
	}
	return container.NewClient(containerURL, cred, co)
}

// realBlobNames undoes gocloud's escapes, so that requests have the blobs' real names.
type realBlobNames struct{}

func (realBlobNames) Do(req *policy.Request) (*http.Response, error) {
	u := req.Raw().URL
	if name := unescape(u.Path); name != u.Path {
		u.Path, u.RawPath = name, ""
	}
	if strings.Contains(u.RawQuery, "__0x") {
		q := u.Query()
		if p := q.Get("prefix"); p != "" {
			q.Set("prefix", unescape(p))
			u.RawQuery = q.Encode()
		}
	}
	return req.Next()
}

type azureProvider struct{}

func (azureProvider) before(match *objstore.Info, as func(any) bool) {
	var in *azblobblob.DownloadStreamOptions
	if match == nil || !as(&in) {
		return
	}
	c := &azblobblob.ModifiedAccessConditions{}
	if match.ETag != "" {
		tag := azcore.ETag(`"` + match.ETag + `"`)
		c.IfMatch = &tag
	} else if !match.ModTime.IsZero() {
		c.IfUnmodifiedSince = &match.ModTime
	}
	in.AccessConditions = &azblobblob.AccessConditions{ModifiedAccessConditions: c}
}

func (azureProvider) version(r *blob.Reader, i *objstore.Info) {
	var out azblobblob.DownloadStreamResponse
	if !r.As(&out) {
		return
	}
	if out.ETag != nil {
		i.ETag = unquote(string(*out.ETag))
	}
	if i.MD5 = out.BlobContentMD5; i.MD5 == nil && out.ContentRange == nil {
		i.MD5 = out.ContentMD5
	}
}

func (azureProvider) attributes(a *blob.Attributes, i *objstore.Info) {
	i.ETag = unquote(a.ETag)
	i.MD5 = a.MD5
}

func (azureProvider) listed(o *blob.ListObject, i *objstore.Info) {
	var item container.BlobItem
	if o.As(&item) && item.Name != nil {
		i.Name = *item.Name
	}
	i.MD5 = o.MD5
}

func (azureProvider) refused(err error) (r refusal) {
	var re *azcore.ResponseError
	if errors.As(err, &re) {
		r.status, r.code = re.StatusCode, re.ErrorCode
		if re.RawResponse != nil {
			r.header = re.RawResponse.Header
		}
	}
	return r
}

func (azureProvider) hidden(string) bool { return false }
