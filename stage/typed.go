package stage

import (
	"context"
	"fmt"
	"io"
	"math"

	"leat/objstore"
)

// Codec turns bytes into values.
type Codec[T any] struct {
	// Decode makes a value of an object's bytes, which are its own to keep.
	Decode func(object []byte) (T, error)

	// With Encode, Load and Name set, Decode is expensive, and done once a machine: what is staged is Encode's result, and Load makes
	// a value of it. Name stands for the three and for what they are set to do, such as "jpeg-224px-v2": values that were staged under another name are not found.
	Name   string
	Encode func(T) ([]byte, error)
	Load   func(encoded []byte) (T, error)
}

// TypedPool prefetches values of one type.
type TypedPool[T any] struct {
	p *Pool
	c Codec[T]
}

// Typed makes a pool one of values. Either Decode alone is set, or all of the codec.
func Typed[T any](p *Pool, c Codec[T]) (*TypedPool[T], error) {
	expensive := c.Encode != nil || c.Load != nil || c.Name != ""
	if c.Decode == nil || expensive && (c.Encode == nil || c.Load == nil || c.Name == "") {
		return nil, fmt.Errorf("stage: a codec has Decode alone, or Decode, Encode, Load and Name")
	}
	return &TypedPool[T]{p, c}, nil
}

// Prefetch is Pool.Prefetch for a value.
func (t *TypedPool[T]) Prefetch(src Source, name string) *TypedLazy[T] {
	if t.c.Encode == nil {
		return &TypedLazy[T]{t.p.Prefetch(src, name), t.c.Decode}
	}
	return &TypedLazy[T]{t.p.Prefetch(&decoded[T]{src, t.p, t.c}, name), t.c.Load}
}

// TypedLazy is a value that was asked for.
type TypedLazy[T any] struct {
	l      *Lazy
	decode func([]byte) (T, error)
}

// Get waits for the value as Lazy.Open does, and makes it: each call its own. It tells where the value comes from.
func (l *TypedLazy[T]) Get(ctx context.Context) (v T, info SourceInfo, err error) {
	b, err := l.l.Bytes(ctx)
	if err != nil {
		return v, info, err
	}
	info = l.l.Info()
	if v, err = l.decode(b); err != nil {
		return v, info, fmt.Errorf("stage: decoding %s: %w", info.Source, err)
	}
	return v, info, nil
}

// Release is Lazy.Release.
func (l *TypedLazy[T]) Release() { l.l.Release() }

// decoded is a source of what a codec makes of another's objects.
type decoded[T any] struct {
	src Source
	p   *Pool
	c   Codec[T]
}

func (d *decoded[T]) ID(name string) string { return d.src.ID(name) + "#" + d.c.Name }

func (d *decoded[T]) Describe(name string) SourceInfo { return describe(d.src, name) }

// version is that of the object that a value is made of.
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

func (d *decoded[T]) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info, io.ReadCloser, error) {
	info, b, err := d.make(ctx, name)
	if err == nil && match != nil && match.ETag != info.ETag {
		err = fmt.Errorf("%w: %s", objstore.ErrChanged, d.ID(name))
	}
	if err != nil {
		return info, nil, err
	}
	return info, memory(b, offset, length), nil
}

// maker is a Source that makes whole objects, each time anew and perhaps not twice the same, and watches its own requests.
type maker interface {
	make(ctx context.Context, name string) (objstore.Info, []byte, error)
}

func (d *decoded[T]) make(ctx context.Context, name string) (objstore.Info, []byte, error) {
	b, info, err := d.p.readAll(ctx, d.src, name, math.MaxInt64)
	if err != nil {
		return objstore.Info{}, nil, err
	}
	info = d.version(info)
	v, err := d.c.Decode(b)
	if err == nil {
		b, err = d.c.Encode(v)
	}
	if err != nil {
		return info, nil, fmt.Errorf("stage: making %s: %w", d.ID(name), err)
	}
	info.Size = int64(len(b))
	return info, b, nil
}
