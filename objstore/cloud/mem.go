//go:build !nocloud

package cloud

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"leat/objstore"
)

// mems holds this process's buckets in memory by name: a bucket that is opened again has its
// objects.
var mems struct {
	sync.Mutex
	buckets map[string]*blob.Bucket
}

func openMem(_ context.Context, u *url.URL, o *objstore.Options) (objstore.Source, error) {
	mems.Lock()
	defer mems.Unlock()
	if mems.buckets == nil {
		mems.buckets = map[string]*blob.Bucket{}
	}
	if mems.buckets[u.Host] == nil {
		mems.buckets[u.Host] = memblob.OpenBucket(nil)
	}
	m := mems.buckets[u.Host]
	return &memBucket{bucket{now: clients{read: m, write: m}, name: "mem://" + u.Host, provider: memProvider{},
		retry: o.Retry}}, nil
}

// memBucket is not closed: it stays for the next Open.
type memBucket struct{ bucket }

func (*memBucket) Close() error { return nil }

type memProvider struct{}

func (memProvider) before(*objstore.Info, func(any) bool)       {}
func (memProvider) version(*blob.Reader, *objstore.Info)        {}
func (memProvider) attributes(*blob.Attributes, *objstore.Info) {}
func (memProvider) listed(*blob.ListObject, *objstore.Info)     {}
func (memProvider) hidden(string) bool                          { return false }
func (memProvider) refused(err error) (r refusal) {
	if gcerrors.Code(err) == gcerrors.NotFound {
		r.status = http.StatusNotFound
	}
	return r
}
