package cloud

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azblobblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"

	"leat/objstore"
)

// openAzure opens azblob://CONTAINER of the account in AZURE_STORAGE_ACCOUNT, with AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CONNECTION_STRING or what the az command finds.
func openAzure(ctx context.Context, u *url.URL, o *objstore.Options) (objstore.Source, error) {
	b := &bucket{name: "azblob://" + u.Host, provider: azureProvider{}}
	fail := func(err error) error { return b.fail("opening", "", err) }
	so := azureblob.NewDefaultServiceURLOptions()
	if so.AccountName == "" && o.Endpoint == "" {
		return nil, &objstore.Error{Op: "opening", URL: b.name, Err: errors.New("the storage account is not known: name it in AZURE_STORAGE_ACCOUNT")}
	}
	var service azureblob.ServiceURL
	if o.Endpoint != "" {
		service = azureblob.ServiceURL(strings.TrimSuffix(o.Endpoint, "/"))
		b.note = "endpoint=" + hostOf(o.Endpoint)
	} else {
		b.note = "account=" + so.AccountName
		var err error
		if service, err = azureblob.NewServiceURL(so); err != nil {
			return nil, fail(err)
		}
	}
	var client *container.Client
	var err error
	if o.Anonymous {
		client, err = container.NewClientWithNoCredential(string(service)+"/"+u.Host, nil)
	} else {
		client, err = azureblob.NewDefaultClient(service, azureblob.ContainerName(u.Host))
	}
	if err != nil {
		return nil, fail(err)
	}
	if b.read, err = azureblob.OpenBucket(ctx, client, nil); err != nil {
		return nil, fail(err)
	}
	b.write = b.read
	return b, nil
}

type azureProvider struct{}

func (azureProvider) before(match *objstore.Info, as func(any) bool) {
	var in *azblobblob.DownloadStreamOptions
	if match != nil && match.ETag != "" && as(&in) {
		tag := azcore.ETag(`"` + match.ETag + `"`)
		in.AccessConditions = &azblobblob.AccessConditions{ModifiedAccessConditions: &azblobblob.ModifiedAccessConditions{IfMatch: &tag}}
	}
}

func (azureProvider) version(r *blob.Reader, i *objstore.Info) {
	var out azblobblob.DownloadStreamResponse
	if r.As(&out) && out.ETag != nil {
		i.ETag = unquote(string(*out.ETag))
	}
}

func (azureProvider) attributes(a *blob.Attributes, i *objstore.Info) {
	i.ETag = unquote(a.ETag)
	i.MD5 = a.MD5
}

func (azureProvider) refused(err error) (int, string, http.Header) {
	var re *azcore.ResponseError
	if errors.As(err, &re) {
		var h http.Header
		if re.RawResponse != nil {
			h = re.RawResponse.Header
		}
		return re.StatusCode, re.ErrorCode, h
	}
	return 0, "", nil
}

func (azureProvider) hidden(name string) bool {
	return control(name) || strings.ContainsAny(name, "\\\"#%?\x7f") || strings.HasSuffix(name, "/") || strings.Contains(name, "../")
}
