package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"leat/codec"
	"leat/objstore"
)

// TypedPool prefetches values of one type. It may be used by many goroutines.
type TypedPool[T any] struct {
	p      *Pool
	decode func(object []byte) (T, error)
	// name is not "" if values are staged as stored encodes them.
	name   string
	stored codec.Codec[T]
}

// Typed returns a TypedPool on p. decode makes a value from an object's bytes, which it may keep;
// it runs in each call of Get.
func Typed[T any](p *Pool, decode func(object []byte) (T, error)) *TypedPool[T] {
	return &TypedPool[T]{p: p, decode: decode}
}

// TypedOnce is Typed for an expensive decode, which runs once per machine: its values are staged as
// stored encodes them, and Get decodes that. name identifies decode, stored and their settings, for
// example "jpeg-224px-v2": values staged under another name are not found. It must not be "".
func TypedOnce[T any](p *Pool, name string, decode func(object []byte) (T, error),
	stored codec.Codec[T]) (*TypedPool[T], error) {
	if name == "" || stored == nil {
		return nil, errors.New("TypedOnce: name and codec are required")
	}
	return &TypedPool[T]{p, decode, name, stored}, nil
}

// Prefetch is Pool.Prefetch for a value.
func (t *TypedPool[T]) Prefetch(src Source, name string) *TypedRef[T] {
	if t.name == "" {
		return &TypedRef[T]{t.p.Prefetch(src, name), t.decode}
	}
	return &TypedRef[T]{t.p.Prefetch(&decoded[T]{src, t}, name), t.stored.Decode}
}

// TypedRef is a reference to a requested value. It may be used by many goroutines.
type TypedRef[T any] struct {
	l      *Ref
	decode func([]byte) (T, error)
}

// Get waits for the value as Ref.Open does, and decodes it anew in each call. It also returns the
// origin of the value.
func (l *TypedRef[T]) Get(ctx context.Context) (v T, info SourceInfo, err error) {
	b, err := l.l.Bytes(ctx)
	if err != nil {
		return v, info, err
	}
	info = l.l.Info()
	if v, err = l.decode(b); err != nil {
		return v, info, fmt.Errorf("decoding %s: %w", info.Source, err)
	}
	return v, info, nil
}

// Release is Ref.Release.
func (l *TypedRef[T]) Release() { l.l.Release() }

// decoded is a source of encoded values, made from the objects of another source.
type decoded[T any] struct {
	src Source
	t   *TypedPool[T]
}

func (d *decoded[T]) ID(name string) string { return d.src.ID(name) + "#" + d.t.name }

func (d *decoded[T]) Describe(name string) SourceInfo { return describe(d.src, name) }

// version returns the version of a value: that of its object.
func (d *decoded[T]) version(i objstore.Info) objstore.Info {
	if !i.Versioned() {
		return objstore.Info{Name: i.Name, Size: -1}
	}
	return objstore.Info{Name: i.Name, Size: -1, ETag: fmt.Sprintf("%x", versionOf(i)), ModTime: i.ModTime}
}

func (d *decoded[T]) Stat(ctx context.Context, name string) (objstore.Info, error) {
	i, err := d.src.Stat(ctx, name)
	return d.version(i), err
}

func (d *decoded[T]) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	info, b, err := d.make(ctx, name)
	if err == nil && match != nil && match.ETag != info.ETag {
		err = fmt.Errorf("%w: %s", objstore.ErrChanged, d.ID(name))
	}
	if err != nil {
		return info, nil, err
	}
	return info, memory(b, offset, length), nil
}

// maker is a Source that makes whole objects anew each time, perhaps with different bytes, and
// handles retries itself.
type maker interface {
	make(ctx context.Context, name string) (objstore.Info, []byte, error)
}

func (d *decoded[T]) make(ctx context.Context, name string) (objstore.Info, []byte, error) {
	b, info, err := d.t.p.readAll(ctx, d.src, name, math.MaxInt64)
	if err != nil {
		return objstore.Info{}, nil, err
	}
	info = d.version(info)
	v, err := d.t.decode(b)
	if err == nil {
		b, err = d.t.stored.Encode(v)
	}
	if err != nil {
		return info, nil, fmt.Errorf("making %s: %w", d.ID(name), err)
	}
	info.Size = int64(len(b))
	return info, b, nil
}
