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

// mems are the buckets in memory of this process, by name: opening one again finds what it has.
var mems struct {
	sync.Mutex
	buckets map[string]*blob.Bucket
}

func openMem(_ context.Context, u *url.URL, _ *objstore.Options) (objstore.Source, error) {
	mems.Lock()
	defer mems.Unlock()
	if mems.buckets == nil {
		mems.buckets = map[string]*blob.Bucket{}
	}
	if mems.buckets[u.Host] == nil {
		mems.buckets[u.Host] = memblob.OpenBucket(nil)
	}
	b := mems.buckets[u.Host]
	return &memBucket{bucket{read: b, write: b, name: "mem://" + u.Host, provider: memProvider{}}}, nil
}

// memBucket stays for the next one who opens it.
type memBucket struct{ bucket }

func (*memBucket) Close() error { return nil }

type memProvider struct{}

func (memProvider) before(*objstore.Info, func(any) bool)       {}
func (memProvider) version(*blob.Reader, *objstore.Info)        {}
func (memProvider) attributes(*blob.Attributes, *objstore.Info) {}
func (memProvider) hidden(string) bool                          { return false }
func (memProvider) refused(err error) (int, string, http.Header) {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return http.StatusNotFound, "", nil
	}
	return 0, "", nil
}
