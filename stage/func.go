package stage

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"leat/objstore"
)

// Func returns a Source whose objects are made by read: from a database, an archive, or by a
// computation. id names read, its settings and its inputs in all processes, for example
// "thumbnails-224px-v2"; what read returns for a name must not change while id stays the same. read
// may be called concurrently, repeats its own requests, and returns an error that wraps
// fs.ErrNotExist if there is no such object. The pool owns the returned bytes.
func Func(id string, read func(ctx context.Context, name string) ([]byte, error)) (Source, error) {
	if id == "" || read == nil {
		return nil, errors.New("source of a function: id and function are required")
	}
	version := fnv.New64a()
	version.Write([]byte(id))
	return &funcSource{id: id, etag: fmt.Sprintf("%016x", version.Sum64()), read: read}, nil
}

type funcSource struct {
	id, etag string
	read     func(ctx context.Context, name string) ([]byte, error)
}

func (f *funcSource) ID(name string) string { return "func:" + f.id + "/" + name }

// Stat does not call read: the version of all objects is that of the id.
func (f *funcSource) Stat(_ context.Context, name string) (objstore.Info, error) {
	return objstore.Info{Name: name, Size: -1, ETag: f.etag}, nil
}

func (f *funcSource) Read(ctx context.Context, name string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	info, b, err := f.make(ctx, name)
	if err != nil {
		return info, nil, err
	}
	return info, memory(b, offset, length), nil
}

func (f *funcSource) make(ctx context.Context, name string) (objstore.Info, []byte, error) {
	info, _ := f.Stat(ctx, name)
	b, err := f.read(ctx, name)
	if err != nil {
		return info, nil, fmt.Errorf("making %s: %w", f.ID(name), err)
	}
	if b == nil {
		b = []byte{}
	}
	info.Size = int64(len(b))
	return info, b, nil
}
